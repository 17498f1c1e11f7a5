"""What counts as a counter of a checkpoint, and which file takes the place of which."""

from __future__ import annotations

import pytest

from preflight.monitor.mini import Mini
from preflight.monitor.views.counters import fallen, is_counter, numbered_alike, risen, same_series, takes_place
from preflight.monitor.window import Call


@pytest.mark.parametrize(
    "key", ["epoch", "step", "global_step", "globalStep", "start_epoch", "iteration", "train_iter"]
)
def test_how_far_a_run_is_is_told_by_these(key: str) -> None:
    assert is_counter(key)


@pytest.mark.parametrize(
    "key", ["best_epoch", "num_epochs", "warmup_steps", "epochs", "seed", "global", "steps_per_epoch"]
)
def test_what_else_has_such_a_word_is_no_counter(key: str) -> None:
    assert not is_counter(key)


def files(old: str, new: str, before: dict[str, int], after: dict[str, int]) -> tuple[Call, Call]:
    window = Mini().window(
        ("load", {"args": {"file": old}, "result": {"counts": before}}),
        ("save", {"args": {"file": new, "counts": after}}),
    )
    return window.named("load")[0], window.named("save")[0]


@pytest.mark.parametrize(
    ("old", "new", "series", "place"),
    [
        ("/b/last.pt", "/b/last.pt", True, True),
        ("./a/last.pt", "a/last.pt", True, True),
        ("/a/last.pt", "/b/a/last.pt", False, False),
        ("a/last.pt", "b/last.pt", False, False),
        ("a\\last.pt", "a\\last.pt", True, True),
        ("last.pt", "last.pt.tmp", True, True),
        ("step_20.ckpt", "step_10.ckpt", True, True),
        ("step_20.ckpt", "step_30.ckpt", True, False),
        ("last.pt", "best.pt", False, False),
        ("model.v1.pt", "model.pt", False, False),
        ("", "", False, False),
    ],
)
def test_a_file_is_known_by_its_name(old: str, new: str, series: bool, place: bool) -> None:
    pair = files(old, new, {}, {})
    assert (same_series(*pair), takes_place(*pair)) == (series, place)


def test_counters_rise_and_fall_together() -> None:
    assert fallen(*files("", "", {"epoch": 3, "step": 9}, {"epoch": 4, "step": 1})) == []
    assert risen(*files("", "", {"epoch": 3, "step": 9}, {"epoch": 4, "step": 1})) == []
    assert fallen(*files("", "", {"epoch": 3, "task": 1}, {"epoch": 0, "task": 1})) == ["epoch"]
    assert risen(*files("", "", {"epoch": 3}, {"epoch": 4, "task": 1})) == ["epoch"]


def test_a_counter_within_the_same_epoch_or_another_stage_does_not_begin_anew() -> None:
    assert fallen(*files("", "", {"epoch": 3, "step": 9}, {"epoch": 3, "step": 1})) == []
    assert fallen(*files("", "", {"step": 9}, {"step": 5})) == []
    assert fallen(*files("", "", {"step": 10}, {"step": 5})) == ["step"]
    first, second = {"stages": {"phase": "a"}}, {"stages": {"phase": "b"}}
    for then, now, found in ((first, second, False), (first, first, True)):
        window = Mini().window(
            ("load", {"result": {"counts": {"epoch": 4}, **then}}), ("save", {"args": {"counts": {"epoch": 0}, **now}})
        )
        pair = window.named("load")[0], window.named("save")[0]
        assert bool(fallen(*pair)) == found
        assert bool(risen(*reversed(pair))) == found


@pytest.mark.parametrize(
    ("old", "new", "alike"), [("e4.pt", "e5.pt", True), ("s3-e4.pt", "s3-e6.pt", True), ("f0.pt", "f1.pt", False)]
)
def test_the_number_in_a_name_may_be_that_of_a_counter(old: str, new: str, alike: bool) -> None:
    assert numbered_alike(*files(old, new, {"epoch": 4}, {"epoch": 5})) == alike
