"""A line on a terminal while work goes on longer than a second; nothing in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from preflight.cli.parts.writing import Writing

AFTER_SECONDS = 1.0
EVERY_SECONDS = 0.1


@contextmanager
def following(writing: Writing) -> Iterator[Callable[[str], None] | None]:
    """Give a function that shows a text in the place of the one before, or None where nobody would see it."""
    if writing.quiet or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    from shutil import get_terminal_size
    from time import monotonic

    due = monotonic() + AFTER_SECONDS
    shown = 0

    def show(text: str) -> None:
        nonlocal shown, due
        if monotonic() >= due:
            due = monotonic() + EVERY_SECONDS
            text = text[: max(get_terminal_size().columns - 1, 20)]
            sys.stderr.write("\r" + text.ljust(shown))
            sys.stderr.flush()
            shown = len(text)

    try:
        yield show
    finally:
        if shown:
            sys.stderr.write("\r" + " " * shown + "\r")
            sys.stderr.flush()


@contextmanager
def progress(what: str, writing: Writing) -> Iterator[Callable[[int, int], None] | None]:
    """Give a function that is told how much is done, or None where nobody would see it."""
    with following(writing) as show:
        yield None if show is None else lambda done, of: show(f"{done} of {of} {what}")


@contextmanager
def dry_runs(writing: Writing) -> Iterator[None]:
    """Show how far the dry runs are that are made inside."""
    with following(writing) as show:
        if show is None:
            yield
            return
        from preflight.dryrun.following import listening

        def tell(told: dict[str, Any]) -> None:
            step = f"step {told['step'] + 1}, {told['phase']}" if told["phase"] != "init" else "construction"
            show(f"dry run on a virtual GPU: {step}, {told['operators']:,} operators, {told['seconds']:.0f} s")

        with listening(tell):
            yield
