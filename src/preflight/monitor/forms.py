"""The form of a window: what is in it, apart from numbers that are others in every iteration.

Most windows of a training have the form of the one before. What a relation looks at is told in words
(``Relation.looks``): names of calls, and ``calls`` for all of them except those of submodules; ``tensors``, ``numbers``,
``rates`` and ``batches``; and ``WHAT at MOMENT`` of states.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from math import isfinite
from operator import le
from typing import Any, NamedTuple

from preflight.monitor.signs import kind_of
from preflight.monitor.window import Batch, Call, Number, Run, Seen, State, Window

_COUNTING = frozenset({"fetch", "loop", "scheduler.step"})
"""Calls whose arguments and results count or tell rates: of these only the words are compared."""
_CALLS = "calls"
_MOST_CONCERNED = 512

Columns = list[tuple[Any, ...]]
_PARENT, _ARGUMENTS = Call._fields.index("parent"), Call._fields.index("args")


def _tensors(rows: list[Seen]) -> Any:
    """Everything but numbers of rows and norms."""
    columns = list(zip(*rows, strict=True))
    return [*columns[4:9], *columns[10:]]


def _number(one: Number) -> Any:
    """What it is, whether it is finite, and a rate's value."""
    return one.name, one.object, one.value is not None and one.value - one.value == 0, one.name == "lr" and one.value


def _batch(one: Batch) -> Any:
    """Everything but the fingerprints and which samples they are."""
    return one.loader, one.size, one.shapes, one.dtypes, not one.bits, not one.indices


def _state(one: State) -> Any:
    """Of what and how it was taken, and which norms are missing, zero or not finite."""
    norms = one.norm
    sound = (all(norms) and isfinite(sum(norms))) or list(map(_class, norms))  # type: ignore[arg-type]
    return one.what, one.moment, one.level, one.bits is None, (one.extra or {}).get("optimizer"), one.ids, sound


def _by_moment(states: list[Any]) -> dict[tuple[str, str], list[Any]]:
    """The forms of states by what they are of, and their moment."""
    found: dict[tuple[str, str], list[Any]] = {}
    for one in states:
        found.setdefault(one[:2], []).append(one)
    return found


def _class(norm: float | None) -> str:
    if norm is None:
        return "none"
    if norm == 0:
        return "zero"
    return "finite" if isfinite(norm) else "not finite"


class _Rows(NamedTuple):
    """The form of all that is in a window except its calls."""

    kind: Any
    tensors: list[Any]
    numbers: list[Any]
    batches: list[Any]
    states: list[Any]

    @classmethod
    def of(cls, window: Window) -> _Rows:
        """The rows of a window."""
        return cls(
            kind_of(window),
            _tensors(window.tensors),
            list(map(_number, window.numbers)),
            list(map(_batch, window.batches)),
            list(map(_state, window.states)),
        )

    def others(self, before: _Rows) -> set[str]:
        """In which words it differs from the rows of the window before."""
        found = set()
        if self.tensors != before.tensors:
            found.add("tensors")
        if self.batches != before.batches:
            found.add("batches")
        if self.numbers != before.numbers:
            if [one[:3] for one in self.numbers] != [one[:3] for one in before.numbers]:
                found.add("numbers")
            if [one for one in self.numbers if one[0] == "lr"] != [one for one in before.numbers if one[0] == "lr"]:
                found.add("rates")
        if self.states != before.states:
            own, others = _by_moment(self.states), _by_moment(before.states)
            found.update(
                f"{what} at {moment}"
                for what, moment in {*own, *others}
                if own.get((what, moment)) != others.get((what, moment))
            )
        return found


class Forms:
    """Compares each window of a rank with the one before.

    Attributes:
        whole: Whether the window is one that can repeat: a complete one with a step, in which nothing became known.
        alike: How many windows in a row had the form of the one before, in everything.
    """

    def __init__(self, looks: Iterable[frozenset[str]]) -> None:
        """Take what relations look at."""
        self._looks = list(dict.fromkeys(looks))
        self._concerned: dict[frozenset[str], list[frozenset[str]]] = {}  # by words: what it is that looks at them
        self.whole = False
        self.alike = 0
        self._calls: list[Call] = []
        self._columns: Columns = []
        self._order: list[int] | None = None
        self._rows = _Rows.of(Window(Run(0, 1), 0))

    def changed(self, window: Window) -> Collection[frozenset[str]]:
        """Of what relations look at, that whose form is another one than in the window before."""
        before, self.whole = self.whole, window.complete and not window.changed and not window.notes
        self.whole = self.whole and bool(window.named("step"))
        if not self.whole or not self._looks:
            self.alike = 0
            return self._looks
        calls, columns, order, rows = self._calls, self._columns, self._order, self._rows
        self._calls = window.plain
        self._columns = list(zip(*self._calls, strict=True))
        self._order = _order(self._columns)
        self._rows = _Rows.of(window)
        if not before:
            self.alike = 0
            return self._looks
        same = order == self._order and _alike(calls, self._calls, columns, self._columns)
        if same and rows == self._rows:
            self.alike += 1
            return ()
        self.alike = 0
        if same and rows[1:] == self._rows[1:]:
            return ()  # it has other signs
        others = self._rows.others(rows)
        if not same:
            others |= self._other_calls(calls)
        words = frozenset(others)
        concerned = self._concerned.get(words)
        if concerned is None:
            if len(self._concerned) >= _MOST_CONCERNED:
                self._concerned.clear()
            concerned = self._concerned[words] = [looks for looks in self._looks if not looks.isdisjoint(words)]
        return concerned

    def _other_calls(self, calls: list[Call]) -> set[str]:
        """The names of calls that are others than in the window before; all where the rest has another order."""
        before, now = _by_name(calls), _by_name(self._calls)
        names = {*before, *now}
        others = {name for name in names if not _same(before.get(name, []), now.get(name, []))}
        rest = names - others
        if not _same([one for one in calls if one.name in rest], [one for one in self._calls if one.name in rest]):
            others = names
        return others | {_CALLS}


def _by_name(calls: list[Call]) -> dict[str, list[Call]]:
    found: dict[str, list[Call]] = {}
    for call in calls:
        found.setdefault(call.name, []).append(call)
    return found


def _same(before: list[Call], now: list[Call]) -> bool:
    if len(before) != len(now):
        return False
    columns, others = list(zip(*before, strict=True)), list(zip(*now, strict=True))
    return _order(columns) == _order(others) and _alike(before, now, columns, others)


def _alike(before: list[Call], now: list[Call], columns: Columns, others: Columns) -> bool:
    """Whether calls differ in nothing but numbers, times and the iteration."""
    if len(before) != len(now):
        return False
    if not now:
        return True
    # names, objects; threads, places, contexts
    if columns[6:8] != others[6:8] or columns[9:12] != others[9:12]:
        return False
    if [one < 0 for one in columns[_PARENT]] != [one < 0 for one in others[_PARENT]]:
        return False
    return columns[_ARGUMENTS:] == others[_ARGUMENTS:] or all(map(_same_words, before, now))


def _same_words(one: Call, other: Call) -> bool:
    if one[_ARGUMENTS:] == other[_ARGUMENTS:]:
        return True
    return one.name in _COUNTING and one.error == other.error and _words(one) == _words(other)


def _words(call: Call) -> list[dict[str, str]]:
    parts: list[Mapping[str, Any]] = [call.args or {}, call.result or {}]
    return [{key: value for key, value in part.items() if isinstance(value, str)} for part in parts]


def _order(columns: Columns) -> list[int] | None:
    """In which order calls began and ended; None when each ended before the next one began."""
    if not columns or all(map(le, columns[1], columns[0][1:])):
        return None
    numbers = [*columns[0], *columns[1]]
    return sorted(range(len(numbers)), key=numbers.__getitem__)
