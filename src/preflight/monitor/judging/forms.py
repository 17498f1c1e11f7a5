"""The form of a window: what is in it, apart from numbers that are others in every iteration.

Most windows of a training have the form of the one before, and most of the others a form that came before. What a relation looks at is told in words
(``Relation.looks``): names of calls, and ``calls`` for all of them except those of submodules; ``tensors``, ``numbers``,
``rates`` and ``batches``; and ``WHAT at MOMENT`` of states, or ``exact WHAT at MOMENT`` where it matters whether there
are fingerprints. What a forward pass tells in detailed iterations alone makes it no other call (see signs.py). Rates are those in force: one that is told again is no other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from math import isfinite
from operator import le
from typing import Any

from preflight.monitor.judging.signs import DETAILS, kind_of
from preflight.monitor.window import Batch, Call, Number, Seen, State, Window

_COUNTING = frozenset({"fetch", "loop", "scheduler.step"})
"""Calls whose arguments and results count or tell rates: of these only the words are compared."""
_CALLS = "calls"
_MOST_CONCERNED = 512
_MOST_FORMS = 64
"""Forms that are kept to be known again."""
_MOST_KIN = 4
"""Of these, such as have the same names and numbers of rows: where they are many, none will come again."""

Columns = list[tuple[Any, ...]]
_NAME, _PARENT, _ARGUMENTS = (Call._fields.index(name) for name in ("name", "parent", "args"))


def _tensors(rows: list[Seen]) -> Any:
    """Everything but numbers of rows and norms."""
    columns = list(zip(*rows, strict=True))
    return [*columns[4:9], *columns[10:]]


def _number(one: Number) -> Any:
    """What it is, and whether it is finite."""
    return one.name, one.object, one.value is not None and one.value - one.value == 0


def _batch(one: Batch) -> Any:
    """Everything but the fingerprints and which samples they are."""
    return one.loader, one.size, one.shapes, one.dtypes, not one.bits, not one.indices


def _state(one: State) -> Any:
    """Of what and how it was taken, and which norms are missing, zero or not finite."""
    norms = one.norm
    sound = (all(norms) and isfinite(sum(norms))) or list(map(_class, norms))  # type: ignore[arg-type]
    return one.what, one.moment, (one.level, one.bits is None), (one.extra or {}).get("optimizer"), one.ids, sound


def _by_moment(states: list[Any]) -> dict[tuple[str, str], list[Any]]:
    """The forms of states by what they are of, and their moment."""
    found: dict[tuple[str, str], list[Any]] = {}
    for one in states:
        found.setdefault(one[:2], []).append(one)
    return found


def _other_states(own: dict[tuple[str, str], list[Any]], others: dict[tuple[str, str], list[Any]]) -> Iterator[str]:
    """The words of states that are others."""
    for key in {*own, *others}:
        some, more = own.get(key, []), others.get(key, [])
        if some != more:
            word = f"{key[0]} at {key[1]}"
            yield f"exact {word}"
            if [one[3:] for one in some] != [one[3:] for one in more]:
                yield word


def _class(norm: float | None) -> str:
    if norm is None:
        return "none"
    if norm == 0:
        return "zero"
    return "finite" if isfinite(norm) else "not finite"


class Form:
    """What is in a window, apart from numbers, times, rates and the number of the iteration."""

    __slots__ = ("batches", "calls", "columns", "numbers", "order", "states", "tensors")

    def __init__(self, window: Window) -> None:
        self.calls = window.plain
        self.columns: Columns = list(zip(*self.calls, strict=True))
        self.order = _order(self.columns)
        self.tensors = _tensors(window.tensors)
        self.numbers = list(map(_number, window.numbers))
        self.batches = list(map(_batch, window.batches))
        self.states = list(map(_state, window.states))

    def kin(self) -> tuple[Any, ...]:
        """What two windows of one form have in common, as a key by which it is found again."""
        return (
            self.columns[_NAME] if self.columns else (),
            len(self.tensors[0]) if self.tensors else 0,
            len(self.numbers),
            len(self.batches),
            len(self.states),
        )

    def same(self, other: Form) -> bool:
        """Whether another window has the same form in everything."""
        return (
            self.order == other.order
            and self.tensors == other.tensors
            and self.numbers == other.numbers
            and self.batches == other.batches
            and self.states == other.states
            and _alike(self.calls, other.calls, self.columns, other.columns)
        )

    def others(self, other: Form) -> frozenset[str]:
        """In which words it differs from another one."""
        found: set[str] = set()
        if self.tensors != other.tensors:
            found.add("tensors")
        if self.batches != other.batches:
            found.add("batches")
        if self.numbers != other.numbers:
            found.add("numbers")
        if self.states != other.states:
            found.update(_other_states(_by_moment(self.states), _by_moment(other.states)))
        if self.order != other.order or not _alike(self.calls, other.calls, self.columns, other.columns):
            found |= self._other_calls(other.calls, self.calls)
        return frozenset(found)

    @staticmethod
    def _other_calls(others: list[Call], own: list[Call]) -> set[str]:
        """The names of calls that are others than in another window; all where the rest has another order."""
        others, own = list(map(_undetailed, others)), list(map(_undetailed, own))
        if _same(others, own):
            return set()
        before, now = _by_name(others), _by_name(own)
        names = {*before, *now}
        changed = {name for name in names if not _same(before.get(name, []), now.get(name, []))}
        rest = names - changed
        if not _same([one for one in others if one.name in rest], [one for one in own if one.name in rest]):
            changed = names
        return changed | {_CALLS}


class Forms:
    """Compares each window of a rank with those before, of which forms are kept to be known again.

    Attributes:
        whole: Whether the window is one that can repeat: a complete one with a step, in which nothing became known.
        alike: How many windows in a row had the form of the one before, in everything.
        form: The number of the window's form: windows with the same one have the same form, apart from rates. Others may
            have it, too, where a form was forgotten. -1 for a window that cannot repeat.
        rates: How often the rates have changed.
    """

    def __init__(self, looks: Iterable[frozenset[str]]) -> None:
        """Take what relations look at."""
        self._looks = list(dict.fromkeys(looks))
        self._concerned: dict[frozenset[str], list[frozenset[str]]] = {}  # by words: what it is that looks at them
        self._known: dict[int, Form] = {}
        self._kin: dict[tuple[Any, ...], list[int]] = {}
        self._words: dict[tuple[int, int], frozenset[str]] = {}  # by two forms: in which words they differ
        self._last = -1
        self._rates: dict[str, float | None] = {}
        self.rates = 0
        self._kind: Any = None
        self.whole = False
        self.alike = 0
        self.form = -1

    def changed(self, window: Window) -> Collection[frozenset[str]]:
        """Of what relations look at, that whose form is another one than in the window before."""
        self.whole = window.complete and not window.changed and not window.notes and "step" in window.names()
        if not self.whole or not self._looks:
            self.alike, self.form = 0, -1
            self._follow(window)
            return self._looks
        before, kind = self.form, self._kind
        self.form = self._number_of(Form(window), before)
        others = self._follow(window)
        self._kind = kind_of(window)
        if before < 0:
            self.alike = 0
            return self._looks
        if before == self.form and not others:
            self.alike = self.alike + 1 if kind == self._kind else 0  # it may have other signs
            return ()
        self.alike = 0
        words = self.words(before, self.form)
        if others:
            words |= {"rates"}
        concerned = self._concerned.get(words)
        if concerned is None:
            if len(self._concerned) >= _MOST_CONCERNED:
                self._concerned.clear()
            concerned = self._concerned[words] = [looks for looks in self._looks if not looks.isdisjoint(words)]
        return concerned

    def _follow(self, window: Window) -> bool:
        """Take in the rates of a window; say whether one of them is another."""
        told = {one.object: one.value for one in window.numbers if one.name == "lr"}
        others = bool(told) and not told.items() <= self._rates.items()
        if others:
            self._rates.update(told)
            self.rates += 1
        return others

    def words(self, one: int, other: int) -> frozenset[str]:
        """In which words two forms that are known differ."""
        key = one, other
        known = self._words.get(key)
        if known is None:
            if len(self._words) >= _MOST_CONCERNED:
                self._words.clear()
            known = self._words[key] = self._known[one].others(self._known[other]) if one != other else frozenset()
        return known

    def same(self, looks: frozenset[str], one: int, other: int) -> bool:
        """Whether what is looked at has the same form in two windows, rates apart; not where a form was forgotten."""
        if one == other:
            return one >= 0
        return one in self._known and other in self._known and self.words(one, other).isdisjoint(looks)

    def _number_of(self, form: Form, before: int) -> int:
        """The number of a form; that of the window before is looked at first."""
        if before >= 0 and form.same(self._known[before]):
            return before
        kin = self._kin.setdefault(form.kin(), [])
        for number in reversed(kin):
            if number != before and form.same(self._known[number]):
                return number
        if len(self._known) >= _MOST_FORMS:
            self._forget(before)
            kin = self._kin.setdefault(form.kin(), [])
        elif len(kin) >= _MOST_KIN:
            oldest = kin.pop(0 if kin[0] != before else 1)
            del self._known[oldest]
        self._last += 1
        self._known[self._last] = form
        kin.append(self._last)
        return self._last

    def _forget(self, before: int) -> None:
        """Keep the form of the window before alone: with it the window is compared."""
        self._words.clear()
        self._kin.clear()
        self._known = {number: form for number, form in self._known.items() if number == before}


def _by_name(calls: list[Call]) -> dict[str, list[Call]]:
    found: dict[str, list[Call]] = {}
    for call in calls:
        found.setdefault(call.name, []).append(call)
    return found


def _undetailed(call: Call) -> Call:
    """A call as it is told outside of detailed iterations."""
    if not call.args or DETAILS.isdisjoint(call.args):
        return call
    return call._replace(args={key: value for key, value in call.args.items() if key not in DETAILS})


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
