"""Training that stands behind an option which is off by default is followed as if the option were given."""

from __future__ import annotations

import textwrap

import pytest

from preflight.source.reading import Reading, read
from preflight.source.script import parse
from preflight.source.values import Known, Unknown, settle

HEAD = """
    import argparse
    import torch
    from torch import nn
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--mode", choices=["test", "train"], default="test")
    args = parser.parse_args()
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    def fit(times):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
    def show():
        for x, y in loader:
            print(model(x))
"""


def follow(text: str, arguments: tuple[str, ...] | None = None) -> Reading:
    script = textwrap.dedent(HEAD) + textwrap.dedent(text)
    return read(parse(script.encode(), "t.py"), arguments)


@pytest.mark.parametrize(
    "text",
    [
        """
        if args.train:
            fit(3)
        else:
            show()
        """,
        """
        if args.mode == "test":
            show()
        else:
            fit(3)
        """,
        """
        if args.train or args.tune:
            if args.tune:
                fit(1)
        """,
        """
        def main():
            if not args.train:
                show()
            elif args.train:
                fit(3)
        main()
        """,
    ],
)
def test_the_only_training_is_on_the_path_and_the_reader_says_so(text: str) -> None:
    reading = follow(text)
    assert reading.loops
    assert not reading.loops[0].frame.shadow
    assert any(note.startswith("no training is reached by the defaults") for note in reading.project.notes)


def test_the_other_side_is_then_the_one_beside_the_path() -> None:
    reading = follow("""
        if args.train:
            fit(3)
        else:
            show()
    """)
    shown = [e for e in reading.trace.calls("builtins.print") if e.context.within(reading.machine.context)]
    assert shown
    assert all(e.context.shadow for e in shown)


def test_where_the_defaults_train_nothing_changes() -> None:
    reading = follow("""
        fit(3)
        if args.tune:
            for x, y in loader:
                model(x).mean().backward()
                optimizer.step()
    """)
    assert [loop.frame.shadow for loop in reading.loops] == [False, True]
    assert reading.project.notes == []


def test_a_command_line_that_is_given_is_taken_as_it_is() -> None:
    reading = follow(
        """
        if args.train:
            fit(3)
        """,
        ("--tune",),
    )
    assert all(loop.frame.shadow for loop in reading.loops)
    assert reading.project.notes == []


def held(reading: Reading) -> object:
    """What the call of breakpoint is given: a value, or ``unknown``."""
    (shown,) = [settle(e.args[0]) for e in reading.trace.calls("builtins.breakpoint")]
    if isinstance(shown, Unknown):
        return "unknown"
    assert isinstance(shown, Known)
    return shown.value


@pytest.mark.parametrize(
    ("asked", "test", "worth"),
    [
        ("args.train", "args.train", True),
        ("not args.train", "args.train", False),
        ("args.train", "not args.train == False", True),
        ("args.mode", 'args.mode == "train"', "unknown"),
        ("args.mode", 'args.mode != "test"', "unknown"),
        ("args.tune", "args.train or args.tune", "unknown"),
        ("args.tune", "args.train", False),
        ("vars(args)['mode']", 'args.mode == "train"', "unknown"),
        ("os.environ.get('TRAIN', '')", "os.environ.get('TRAIN', '') == '1'", "unknown"),
    ],
)
def test_other_places_that_ask_the_option_hold_what_trains(asked: str, test: str, worth: object) -> None:
    reading = follow(f"""
        import os
        breakpoint({asked})
        if {test}:
            fit(3)
    """)
    assert reading.loops
    assert not reading.loops[0].frame.shadow
    assert held(reading) == worth


def test_what_another_test_of_the_option_sets_up_is_not_what_trains() -> None:
    reading = follow("""
        if not args.train:
            breakpoint()
        if args.train:
            fit(3)
    """)
    (shown,) = reading.trace.calls("builtins.breakpoint")
    assert shown.context.shadow


def test_a_training_that_no_few_options_lead_to_is_left_beside_the_path() -> None:
    nested = follow("""
        import os
        if args.train:
            if args.tune:
                if args.mode == "train":
                    if os.environ.get("REALLY", ""):
                        fit(3)
    """)
    assert all(loop.frame.shadow for loop in nested.loops)
    assert nested.project.notes == []
