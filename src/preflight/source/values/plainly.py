"""Values as plain Python data, as far as they are known."""

from __future__ import annotations

from typing import Any

from preflight.source.values.choices import settle
from preflight.source.values.kinds import Dict, Known, Seq, Value


def plain(value: Value | None, default: Any = None) -> Any:
    """Return the Python value of a settled value (containers included), or ``default`` where any part is unknown."""
    return weighed(value, default)[0]


def weighed(value: Value | None, default: Any = None) -> tuple[Any, int]:
    """Return what ``plain`` returns, and how many parts were looked at."""
    left = [MAX_PARTS]
    result = _plain(value, 0, left)
    return (default if result is _MISSING else result), MAX_PARTS - left[0]


_MISSING = object()


MAX_PARTS = 50_000
"""Parts of a container that are turned into plain values (64 characters of text are one more part): one list that is
held many times counts each time."""


def _plain(value: Value | None, depth: int, left: list[int]) -> Any:
    left[0] -= 1
    if value is None or depth > 12 or left[0] < 0:
        return _MISSING
    value = settle(value)
    if isinstance(value, Known):
        if isinstance(value.value, (str, bytes)):
            left[0] -= len(value.value) // 64
            return value.value if left[0] >= 0 else _MISSING
        return value.value
    if isinstance(value, Seq) and not value.open:
        items = []
        for item in value.items:
            found = _plain(item, depth + 1, left)
            if found is _MISSING:
                return _MISSING
            items.append(found)
        if value.kind == "tuple":
            return tuple(items)
        return items
    if isinstance(value, Dict) and not value.open:
        entries = {}
        for key, item in value.entries.items():
            found = _plain(item, depth + 1, left)
            if found is _MISSING:
                return _MISSING
            entries[key] = found
        return entries
    return _MISSING
