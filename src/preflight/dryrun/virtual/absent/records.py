"""Records that stand in for those of a data set: the keys are those that the script asks for, the values follow their names."""

from __future__ import annotations

import csv
import io
import sys
from functools import lru_cache
from typing import Any

from preflight.dryrun.virtual.absent import formats, uses

_KNOWN = frozenset(
    "train validation test train_test input_ids attention_mask labels token_type_ids valid dev val utf r w rb wb".split()
)
_SMALL = ("label", "idx", "id", "target", "class", "category", "rating", "sentiment", "stars", "y")
_TEXTUAL = (
    "text sentence review comment content title tweet question answer prompt name file path image summary headline "
    "article body message instruction input output response caption query context passage document source word".split()
)


def script() -> str:
    """Return the file of the script."""
    return getattr(sys.modules.get("__main__"), "__file__", None) or ""


def keys(*filenames: str) -> list[str]:
    """Return the names by which some files ask for parts of their records."""
    return list(dict.fromkeys(key for name in filenames for key in _keys(name)))


@lru_cache(maxsize=64)
def _keys(name: str) -> tuple[str, ...]:
    return tuple(key for key in uses.keys(name) if key not in _KNOWN)


@lru_cache(maxsize=64)
def _lists(name: str) -> frozenset[str]:
    return frozenset(uses.lists(name))


def record(number: int, *filenames: str) -> dict[str, Any]:
    """Return a record with text, or a number where the name of the key says so."""
    made: dict[str, Any] = {}
    several = {key for name in filenames for key in _lists(name)}
    for key in keys(*filenames):
        low = key.lower()
        if low in _SMALL:
            made[key] = number % 2
        elif low in ("messages", "conversations", "conversation"):
            made[key] = dialogue(number)
        elif key in several:
            made[key] = [formats.words(10, number + choice).strip() for choice in range(4)]
        else:
            made[key] = formats.words(40, number)
    return made or {"text": formats.words(200, number)}


def dialogue(number: int) -> list[dict[str, str]]:
    """Return a talk of two."""
    return [{"role": role, "content": formats.words(60, number)} for role in ("user", "assistant")]


def table(separator: str, *filenames: str) -> str:
    """Return a table with a column for each name that the code asks for: text, small numbers, dates or shares."""
    names = keys(*filenames) or ["text", "label"]
    out = io.StringIO()
    writer = csv.writer(out, delimiter=separator, lineterminator="\n")
    writer.writerow(names)
    for number in range(formats.ROWS):
        writer.writerow([cell(name.lower(), number) for name in names])
    return out.getvalue()


def cell(name: str, number: int) -> Any:
    """Return a plausible value of a column, by its name."""
    if name in _SMALL:
        return number % 2
    if "date" in name or "time" in name:
        import datetime

        return (datetime.datetime(2020, 1, 1) + datetime.timedelta(hours=number)).isoformat(" ")
    if any(word in name for word in _TEXTUAL):
        return _sentence(number % 64)
    return (number * 37 % 100) / 100


@lru_cache(maxsize=64)
def _sentence(number: int) -> str:
    return formats.words(20, number).replace("\n", " ").strip()
