"""Values as configurations write them: read, multiplied, written back in the notation of the file."""

from __future__ import annotations

import re

from preflight.errors import UsageError
from preflight.vocabulary.remedy import SettingChange

_NUMBER = re.compile(r"[+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$")


def number(text: str) -> int | float | None:
    """Return the number that a text is, or None."""
    word = text.strip().strip("'\"")
    if not _NUMBER.fullmatch(word):
        return None
    try:
        return int(word)
    except ValueError:
        return float(word)


def becomes(change: SettingChange, old: str, value: str | None, notation: str) -> str | None:
    """Return what stands in place of an old value, or None where it cannot be multiplied or is that already.

    Args:
        change: What is to be changed.
        old: The value as it is written.
        value: What the person wants instead of what the change says.
        notation: ``python`` (True, 'text'), ``json`` (true, "text"), or ``plain`` (true, text).
    """
    if value is not None:
        new = value
    elif change.factor is not None:
        was = number(old)
        if was is None:
            return None
        new = _multiplied(was, change.factor)
    elif change.value is not None:
        new = written(change.value, notation)
    else:
        return None
    if value is None and old[:1] in "'\"" and old[:1] == old[-1:] and notation != "plain":
        new = new if new[:1] in "'\"" else f"{old[0]}{new}{old[0]}"
    return None if new == old else new


def _multiplied(was: int | float, factor: float) -> str:
    if isinstance(was, int):
        return str(max(1, int(was * factor)) if was > 0 else was)
    return format(was * factor, ".6g")


def written(value: bool | int | float | str, notation: str) -> str:
    """Return a value in a notation."""
    if isinstance(value, bool):
        return str(value) if notation == "python" else str(value).lower()
    if isinstance(value, str):
        import json

        return value if notation == "plain" else json.dumps(value)
    return repr(value)


def check_word(value: str) -> str:
    """Return a value for a variable or flag; a line break in it is an error.

    Raises:
        UsageError: It holds a line break.
    """
    if "\n" in value or "\r" in value or "\0" in value:
        raise UsageError("a value with a line break cannot be set")
    return value


__all__ = ["becomes", "check_word", "number", "written"]
