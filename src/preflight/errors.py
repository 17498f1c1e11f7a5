"""The error tree. Each error has an exit code and, where there is one, a hint."""

from __future__ import annotations

from collections.abc import Iterable


class PreflightError(Exception):
    """The tool failed or was misused.

    Attributes:
        exit_code: The exit code of the process.
        hint: What to do instead, or None.
    """

    exit_code = 2

    def __init__(self, message: str, hint: str | None = None) -> None:
        """Keep the message and the hint."""
        super().__init__(message)
        self.hint = hint


class InputError(PreflightError):
    """The input cannot be read: missing, not Python, broken, too large."""


class TraceError(InputError):
    """A trace cannot be read: none there, damaged, of a newer format, or still being written."""


class UsageError(PreflightError):
    """An option or a value of an option is wrong."""


class CatalogError(PreflightError):
    """A catalog file is wrong or names no source."""


def nearest(word: str, choices: Iterable[str], alike: float = 0.5) -> str | None:
    """Return the choice closest to ``word``, or None when none is close.

    Args:
        word: What was written.
        choices: What there is.
        alike: The least likeness, 0 to 1: short words are alike by chance.
    """
    import difflib

    matches = difflib.get_close_matches(word, list(choices), n=1, cutoff=alike)
    return matches[0] if matches else None
