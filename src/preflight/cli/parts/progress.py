"""A line on a terminal while work goes on longer than a second; nothing in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from preflight.cli.parts.writing import Writing

AFTER_SECONDS = 1.0


@contextmanager
def progress(what: str, writing: Writing) -> Iterator[Callable[[int, int], None] | None]:
    """Give a function that is told how much is done, or None where nobody would see it."""
    if writing.quiet or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    from time import monotonic

    began = monotonic()
    shown = 0

    def tell(done: int, of: int) -> None:
        nonlocal shown
        if monotonic() - began >= AFTER_SECONDS:
            text = f"{done} of {of} {what}"
            sys.stderr.write("\r" + text.ljust(shown))
            sys.stderr.flush()
            shown = len(text)

    try:
        yield tell
    finally:
        if shown:
            sys.stderr.write("\r" + " " * shown + "\r")
            sys.stderr.flush()
