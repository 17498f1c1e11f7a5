"""Windows that repeat: the calls of an iteration are those of the one before, as they are in most of a training.

A relation that looks at calls alone says of such a window what it said of the one before, and need not see it; after how
many in a row that is so it tells itself (``Relation.repeats``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from preflight.monitor.relation import UNSEEN, Example, Relation
from preflight.monitor.window import Call, Window

_COUNTING = frozenset({"fetch", "loop", "scheduler.step"})
"""Calls whose arguments and results count or tell rates: of these only the words are compared."""
Asked = list[tuple[int, Relation]]
"""Relations with their numbers."""
Said = list[tuple[int, list[Example]]]
"""What relations said, by their numbers."""
_NONE: tuple[int, list[Example]] = 0, []


class Repeats:
    """Follows the windows of one rank, and keeps what relations said of those that repeat."""

    def __init__(self) -> None:
        self._calls: list[Call] = []
        self._order: list[int] | None = None
        self._held: dict[int, tuple[int, list[Example]]] = {}
        self._settled: tuple[Asked, Said, Asked] | None = None

    def look(self, window: Window) -> None:
        """Take in a window; forget what was said when its calls are not those of the one before."""
        before, order = self._calls, self._order
        self._calls, self._order = window.plain, None
        whole = window.complete and not window.changed and not window.notes and bool(window.named("step"))
        if whole:
            self._order = _order(self._calls)
            whole = len(before) == len(self._calls) and order == self._order and all(map(_alike, before, self._calls))
        if not whole:
            self._held.clear()
            self._settled = None

    def settled(self, awake: Asked) -> tuple[Said, Asked]:
        """What relations say that look at calls alone and need not be asked while windows repeat; and those to be asked.

        Args:
            awake: The relations that the window is for; the same list for the same kind of window.
        """
        known = self._settled
        if known is not None and known[0] is awake:
            return known[1], known[2]
        if not self._held:
            return [], awake
        said: Said = []
        rest: Asked = []
        waiting = False
        for number, one in awake:
            alone = one.repeats and type(one).quiet is Relation.quiet
            count, found = self._held.get(number, _NONE)
            if not alone or count < one.repeats:
                rest.append((number, one))
                waiting = waiting or bool(alone)
            elif found:
                said.append((number, found))
        if not waiting:
            self._settled = awake, said, rest
        return said, rest

    def see(self, number: int, relation: Relation, window: Window) -> list[Example]:
        """The examples of a relation, as it said them before where it would say the same again."""
        count, found = self._held.get(number, _NONE)
        quiet = relation.quiet(window)
        if quiet and count >= relation.repeats:
            return found
        found = list(relation.see(window))
        held = quiet and all(one.holds and one.value is UNSEEN for one in found)
        self._held[number] = (count + 1, found) if held else _NONE
        return found


def _alike(one: Call, other: Call) -> bool:
    """Whether two calls differ in nothing but numbers, times and the iteration."""
    if one[6:8] != other[6:8] or one[9:12] != other[9:12] or (one.parent < 0) != (other.parent < 0):
        return False
    if one[12:] == other[12:]:
        return True
    return one.name in _COUNTING and one.error == other.error and _words(one) == _words(other)


def _words(call: Call) -> list[dict[str, str]]:
    parts: list[Mapping[str, Any]] = [call.args or {}, call.result or {}]
    return [{key: value for key, value in part.items() if isinstance(value, str)} for part in parts]


def _order(calls: list[Call]) -> list[int] | None:
    """In which order calls began and ended; None when each ended before the next one began."""
    end = -1
    for call in calls:
        if call.q < end:
            numbers = [call.q for call in calls] + [call.e for call in calls]
            return sorted(range(len(numbers)), key=numbers.__getitem__)
        end = call.e
    return None
