"""The members of sets: what is equal counts once, and what two sets make together."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from preflight.source.values import Known, Seq, Value, plain, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

_UNKNOWN: Any = object()
_TESTS = frozenset("issubset issuperset isdisjoint".split())
ALGEBRA = _TESTS | frozenset("union difference intersection symmetric_difference".split())
"""Methods of sets that leave them as they are."""


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


def combined(m: Machine, name: str, base: Seq, others: list[Value], node: ast.AST) -> Value:
    """Return what a method of ``ALGEBRA`` makes of a set and others, exact where all of them are known."""
    sets = [_worth(m, one) for one in (base, *others)]
    if None in sets:
        if name in _TESTS:
            return m.unknown("sets that are not fully known", node, base, *others)
        more = [item for one in others for item in _items(one)] if name == "union" else []
        # Which of the plain members are left is not known; of things it matters more that they may be there.
        kept = [item for item in base.items if name == "union" or not isinstance(settle(item), Known)]
        return Seq([*kept, *more], "set", m.site(node), True)
    first, *rest = [one for one in sets if one is not None]
    if name in _TESTS:
        return m.known(getattr(set(first), name)(*rest), node)
    left = getattr(set(first), name)(*rest)
    everything = {worth: item for one in reversed(sets) for worth, item in (one or {}).items()}
    ordered = dict.fromkeys(worth for one in sets for worth in one or ())
    return Seq([everything[worth] for worth in ordered if worth in left], "set", m.site(node))


def _items(value: Value) -> list[Value]:
    settled = settle(value)
    return settled.items if isinstance(settled, Seq) else []


def _worth(m: Machine, value: Value) -> dict[Any, Value] | None:
    """Return the members by what they are worth, in their order; None where one of them is not known."""
    settled = settle(value)
    if not isinstance(settled, Seq) or settled.open:
        return None
    m.tick(len(settled.items) // 8)
    worth: dict[Any, Value] = {}
    for item in settled.items:
        value = plain(item, _UNKNOWN)
        if not _hashable(value):
            return None
        worth.setdefault(value, item)
    return worth
