"""The members of sets: what is equal counts once."""

from __future__ import annotations

from typing import Any

from preflight.source.values import Value, plain, settle

_UNKNOWN: Any = object()


def each_once(items: list[Value]) -> list[Value]:
    """Return the items of which no earlier one is known to be equal, or is the same thing."""
    worth: set[Any] = set()
    things: set[int] = set()
    members = []
    for item in items:
        settled = settle(item)
        value = plain(settled, _UNKNOWN)
        seen, mark = (things, id(settled)) if not _hashable(value) else (worth, value)
        if mark not in seen:
            seen.add(mark)
            members.append(item)
    return members


def _hashable(value: Any) -> bool:
    if value is _UNKNOWN:
        return False
    try:
        hash(value)
    except TypeError:
        return False
    return True
