"""One line on stderr, in the monitor's name."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    """Say one line on stderr; where there is none, or it is closed, nothing is said."""
    try:
        sys.stderr.write(f"preflight monitor: {text}\n")
    except (AttributeError, OSError, ValueError):
        return


def reason_of(error: BaseException) -> str:
    """Return what an error says, in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:400]
