"""What follows ``--`` reaches the script, whatever reads its command line; what nothing takes is an error."""

from __future__ import annotations

from typing import Any

import pytest

from preflight.errors import UsageError

RECORD = """
    @dataclasses.dataclass
    class Inner:
        width: int = 3
    @dataclasses.dataclass
    class Args:
        lr: float = 0.1
        batch: int = 8
        amp: bool = True
        inner: Inner = dataclasses.field(default_factory=Inner)
"""
SCRIPTS = {
    "fire": """
        import fire
        got = {}
        def main(lr=0.1, batch=8, amp=True):
            got.update(lr=lr, batch=batch, amp=amp)
        fire.Fire(main)
    """,
    "typer.run": """
        import typer
        got = {}
        def main(lr: float = 0.1, size: int = typer.Option(8, "--batch", "-b"), amp: bool = True):
            got.update(lr=lr, batch=size, amp=amp)
        typer.run(main)
    """,
    "typer.Typer": """
        import typer
        got = {}
        app = typer.Typer()
        @app.command()
        def main(lr: float = 0.1, batch: int = 8, amp: bool = True):
            got.update(lr=lr, batch=batch, amp=amp)
        app()
    """,
    "click": """
        import click
        got = {}
        @click.command()
        @click.option("--lr", default=0.1)
        @click.option("--batch", "-b", default=8)
        @click.option("--amp/--no-amp", default=True)
        def main(lr, batch, amp):
            got.update(lr=lr, batch=batch, amp=amp)
        main()
    """,
    "absl": """
        from absl import app, flags
        got = {}
        FLAGS = flags.FLAGS
        flags.DEFINE_float("lr", 0.1, "")
        flags.DEFINE_integer("batch", 8, "")
        flags.DEFINE_bool("amp", True, "")
        def main(argv):
            got.update(lr=FLAGS.lr, batch=FLAGS.batch, amp=FLAGS.amp)
        app.run(main)
    """,
    "tyro": f"""
        import dataclasses, tyro
        got = {{}}
        {RECORD.replace(chr(10), chr(10) + "    ")}
        a = tyro.cli(Args)
        got.update(lr=a.lr, batch=a.batch, amp=a.amp)
    """,
    "simple_parsing.parse": f"""
        import dataclasses
        from simple_parsing import parse
        got = {{}}
        {RECORD.replace(chr(10), chr(10) + "    ")}
        a = parse(Args)
        got.update(lr=a.lr, batch=a.batch, amp=a.amp)
    """,
    "simple_parsing.ArgumentParser": f"""
        import dataclasses
        from simple_parsing import ArgumentParser
        got = {{}}
        {RECORD.replace(chr(10), chr(10) + "    ")}
        p = ArgumentParser()
        p.add_arguments(Args, dest="opts")
        a = p.parse_args().opts
        got.update(lr=a.lr, batch=a.batch, amp=a.amp)
    """,
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_given_arguments_reach_the_script(name: str, follow: Any) -> None:
    assert follow(SCRIPTS[name])["got"] == {"lr": 0.1, "batch": 8, "amp": True}
    given = follow(SCRIPTS[name], None, ("--lr", "0.5", "--batch", "4"))
    assert given["got"] == {"lr": 0.5, "batch": 4, "amp": True}
    assert follow(SCRIPTS[name], None, ("--lr=2.5",))["got"]["lr"] == 2.5


@pytest.mark.parametrize("name", [name for name in SCRIPTS if name != "absl"])  # absl has flags of its own
def test_what_nothing_takes_is_an_error(name: str, follow: Any) -> None:
    with pytest.raises(UsageError, match="unrecognized arguments: --lrr"):
        follow(SCRIPTS[name], None, ("--lrr", "0.5"))


@pytest.mark.parametrize(
    ("name", "word"), [("typer.run", "--no-amp"), ("click", "--no-amp"), ("absl", "--noamp"), ("tyro", "--no-amp")]
)
def test_a_switch_is_turned_off(name: str, word: str, follow: Any) -> None:
    assert follow(SCRIPTS[name], None, (word,))["got"]["amp"] is False


def test_a_field_of_a_field(follow: Any) -> None:
    text = SCRIPTS["tyro"].replace("got.update(", "width = a.inner.width; got.update(")
    assert follow(text)["width"] == 3
    assert follow(text, None, ("--inner.width", "5"))["width"] == 5


GROUPS = {
    "click": """
        import click
        got = {}
        @click.group()
        @click.option("--verbose", is_flag=True)
        def cli(verbose):
            pass
        @cli.command()
        @click.option("--lr", default=0.1)
        def train(lr):
            got.update(lr=lr)
        @click.command()
        def evaluate():
            got.update(evaluated=True)
        cli.add_command(evaluate)
        cli()
    """,
    "typer": """
        import typer
        got = {}
        app = typer.Typer()
        @app.command()
        def train(lr: float = 0.1):
            got.update(lr=lr)
        @app.command(name="evaluate")
        def test():
            got.update(evaluated=True)
        app()
    """,
}


@pytest.mark.parametrize("name", GROUPS)
def test_the_line_names_the_command_of_a_group(name: str, follow: Any) -> None:
    assert follow(GROUPS[name], None, ("train", "--lr", "0.5"))["got"]["lr"] == 0.5
    # What is not called is followed on its own afterwards, with its defaults.
    assert follow(GROUPS[name], None, ("evaluate",))["got"] == {"evaluated": True, "lr": 0.1}
    with pytest.raises(UsageError, match="unrecognized arguments: --lr"):
        follow(GROUPS[name], None, ("evaluate", "--lr", "0.5"))
    with pytest.raises(UsageError, match="unrecognized arguments: trian"):
        follow(GROUPS[name], None, ("trian",))


def test_words_without_a_name_fill_what_is_free(follow: Any) -> None:
    assert follow(SCRIPTS["fire"], None, ("0.5", "--amp", "False", "4"))["got"] == {"lr": 0.5, "batch": 4, "amp": False}


def test_click_names_an_option_by_the_first_long_flag_and_keeps_a_name_of_its_own(follow: Any) -> None:
    text = """
        import click
        got = {}
        @click.command()
        @click.option("-n", "--lr", "--learning-rate", default=0.1)
        @click.option("--batch", "Batch", default=8)
        @click.option("--amp / --no-amp", default=True)
        def main(lr, Batch, amp):
            got.update(lr=lr, batch=Batch, amp=amp)
        main()
    """
    assert follow(text)["got"] == {"lr": 0.1, "batch": 8, "amp": True}
    line = ("--learning-rate", "0.5", "--batch", "4", "--no-amp")
    assert follow(text, None, line)["got"] == {"lr": 0.5, "batch": 4, "amp": False}


def test_click_takes_several_words_for_one_option_and_counts_flags(follow: Any) -> None:
    text = """
        import click
        got = {}
        @click.command()
        @click.argument("paths", nargs=-1)
        @click.option("--size", nargs=2, type=int, default=(3, 4))
        @click.option("-v", "--verbose", count=True)
        def main(paths, size, verbose):
            got.update(paths=paths, size=size, verbose=verbose)
        main()
    """
    assert follow(text)["got"] == {"paths": [], "size": (3, 4), "verbose": 0}
    line = ("a", "b", "--size", "5", "6", "-vv")
    assert follow(text, None, line)["got"] == {"paths": ["a", "b"], "size": [5, 6], "verbose": 2}


def test_typer_takes_what_annotations_say_of_options_and_arguments(follow: Any) -> None:
    text = """
        from typing import Annotated
        import typer
        got = {}
        def main(
            name: Annotated[str, typer.Argument()] = "base",
            lr: Annotated[float, typer.Option("--learning-rate", "-l", help="the rate")] = 0.1,
            tag: Annotated[str, typer.Option()] = "",
            plain: int = 1,
        ):
            got.update(name=name, lr=lr, tag=tag, plain=plain)
        typer.run(main)
    """
    expected = {"name": "base", "lr": 0.1, "tag": "", "plain": 1}
    assert follow(text)["got"] == expected
    for flag in ("--learning-rate", "-l"):
        assert follow(text, None, ("large", flag, "0.5"))["got"] == expected | {"name": "large", "lr": 0.5}
    assert follow(text, None, ("--tag", "7", "--plain", "7"))["got"] == expected | {"tag": "7", "plain": 7}
    with pytest.raises(UsageError, match="--rate"):
        follow(text, None, ("--rate", "0.5"))


def test_a_flag_of_its_own_switches_off(follow: Any) -> None:
    text = """
        import typer
        got = {}
        app = typer.Typer()
        @app.command()
        def main(fast: bool = typer.Option(True, "--fast/--slow"), batch: int = 4):
            got.update(fast=fast, batch=batch)
        app()
    """
    assert follow(text, None, ("--slow", "--batch", "8"))["got"] == {"fast": False, "batch": 8}
    assert follow(text, None, ("--fast",))["got"] == {"fast": True, "batch": 4}


def test_what_is_appended_comes_behind_a_default_that_is_a_list(follow: Any) -> None:
    text = """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--widths", type=int, action="append", default=[1, 2])
        parser.add_argument("--depths", type=int, action="append")
        args = parser.parse_args()
        widths, depths = args.widths, args.depths
    """
    given = follow(text, None, ("--widths", "3", "--depths", "4", "--depths", "5"))
    assert (given["widths"], given["depths"]) == ([1, 2, 3], [4, 5])
    assert follow(text)["widths"] == [1, 2]
