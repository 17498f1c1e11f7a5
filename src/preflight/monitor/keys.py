"""Values as keys: what JSON gives back as a list and a relation as a tuple is the same value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_KEYS = frozenset({str, int, float, bool, type(None)})


def frozen(value: Any) -> Any:
    """A value that can be a key: lists as tuples, objects as pairs."""
    if type(value) in _KEYS:
        return value
    if isinstance(value, (list, tuple)):
        if _KEYS.issuperset(map(type, value)):
            return tuple(value)
        return tuple(map(frozen, value))
    if isinstance(value, Mapping):
        return _Pairs((key, frozen(value[key])) for key in sorted(value))
    return value


def thawed(value: Any) -> Any:
    """The plain value of a key."""
    if isinstance(value, _Pairs):
        return {key: thawed(one) for key, one in value}
    if isinstance(value, tuple):
        return [thawed(one) for one in value]
    return value


class _Pairs(tuple[Any, ...]):
    """An object as a key."""

    def __new__(cls, pairs: Iterator[tuple[str, Any]]) -> _Pairs:
        return super().__new__(cls, tuple(pairs))
