"""One line on stderr, in the monitor's name."""

from __future__ import annotations

import os
import stat
import sys
import time
from typing import Any

_TOGETHER = 1.0
"""Seconds: on a terminal, what is said within them of each other stands together."""
_said = float("-inf")


def say(text: str) -> None:
    """Say one line on stderr; where there is none, or it is closed, nothing is said."""
    write(f"preflight monitor: {text}\n")


def write(text: str) -> None:
    """Write to stderr as a whole, so that it does not mix with what the program writes; where there is none, nothing."""
    try:
        sys.stderr.write(f"{_before(sys.stderr)}{text}")
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):
        return


def _before(stream: Any) -> str:
    """Return a line end where the last line of a stream may have none: a progress bar stays on the line that it is drawn on.

    The last character of a file can be read. What stands on a terminal cannot: there the text begins after an empty
    line, unless it belongs to what was said a moment ago. Of a pipe nothing is known, and nothing is added.
    """
    global _said
    before, _said = _said, time.monotonic()
    try:
        number = stream.fileno()
        if os.isatty(number):
            return "\n" if _said - before > _TOGETHER else ""
        return "\n" if stat.S_ISREG(os.fstat(number).st_mode) and _last(number) not in (b"", b"\n") else ""
    except (AttributeError, OSError, ValueError):
        return ""


def _last(number: int) -> bytes:
    """Return the last byte of an open file, which is read by a name of its own, since it may be open for writing alone."""
    size = os.fstat(number).st_size
    if not size:
        return b""
    reading = os.open(f"/proc/self/fd/{number}", os.O_RDONLY)
    try:
        return os.pread(reading, 1, size - 1)
    finally:
        os.close(reading)


def reason_of(error: BaseException) -> str:
    """Return what an error says, in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:400]
