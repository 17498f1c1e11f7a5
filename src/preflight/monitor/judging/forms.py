"""The form of a window: what is in it, apart from numbers that are others in every iteration.

Most windows of a training have the form of the one before, and most of the others a form that came before. What a relation looks at is told in words
(``Relation.looks``): names of calls, and ``calls`` for all of them except those of submodules; ``tensors``, ``numbers``,
``rates`` and ``batches``; and ``WHAT at MOMENT`` of states, or ``exact WHAT at MOMENT`` where it matters whether there
are fingerprints. What a forward pass tells in detailed iterations alone makes it no other call (see signs.py). Rates are
those in force: one that is told again is no other.
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
_MOST_COMPARED = 8
"""Of these, such as another one is compared with for who looks at a part of them: the last ones."""
_MOST_KIN = 4
"""Of these, such as have the same names and numbers of rows: where they are many, none will come again."""

_NAME, _PARENT, _THREAD, _ARGUMENTS = (Call._fields.index(name) for name in ("name", "parent", "thread", "args"))
_OBJECT, _NORM = (Seen._fields.index(name) for name in ("object", "norm"))


class _Calls:
    """The form of calls: all but numbers, times and the iteration."""

    __slots__ = ("forms", "order", "rows")

    def __init__(self, calls: list[Call]) -> None:
        self.rows = calls
        # Slices of rows: what is compared for each window is made in few instructions.
        self.forms = [(one[_NAME:_PARENT], one.parent < 0, one[_THREAD:]) for one in calls]
        self.order = _order([one.q for one in calls], [one.e for one in calls])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Calls) or self.order != other.order:
            return False
        if self.forms == other.forms:
            return True
        return len(self.rows) == len(other.rows) and all(map(_same_call, self.rows, other.rows))


def _tensors(rows: list[Seen]) -> Any:
    """Everything but numbers of rows and norms."""
    return [one[_OBJECT:_NORM] for one in rows], [one.requires_grad for one in rows]


def _numbers(rows: list[Number]) -> list[Any]:
    """What each is, and whether it is finite."""
    return [(name, of, value is not None and value - value == 0) for _, _, _, _, name, of, value in rows]


def _batches(rows: list[Batch]) -> list[Any]:
    """Everything but the fingerprints and which samples they are."""
    return [
        (loader, size, shapes, dtypes, not bits, not indices)
        for _, _, _, loader, _, _, size, indices, bits, shapes, dtypes in rows
    ]


def _state(one: State) -> Any:
    """Of what and how it was taken, and which norms are missing, zero or not finite."""
    _, _, _, _, moment, what, level, ids, norms, bits, extra = one
    return (
        what,
        moment,
        (level, bits is None),
        (extra or {}).get("optimizer"),
        ids,
        one.sound or list(map(_class, norms)),
    )


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

    __slots__ = ("batches", "calls", "numbers", "states", "tensors")

    def __init__(self, window: Window) -> None:
        self.calls = _Calls(window.plain)
        self.tensors = _tensors(window.tensors)
        self.numbers = _numbers(window.numbers)
        self.batches = _batches(window.batches)
        self.states = list(map(_state, window.states))

    def kin(self) -> tuple[Any, ...]:
        """What two windows of one form have in common, as a key by which it is found again."""
        return (
            tuple([one.name for one in self.calls.rows]),
            len(self.tensors[0]),
            len(self.numbers),
            len(self.batches),
            len(self.states),
        )

    def same(self, other: Form) -> bool:
        """Whether another window has the same form in everything."""
        return (
            self.calls == other.calls
            and self.tensors == other.tensors
            and self.numbers == other.numbers
            and self.batches == other.batches
            and self.states == other.states
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
        if self.calls != other.calls:
            found |= _other_calls(other.calls.rows, self.calls.rows)
        return frozenset(found)


def _other_calls(others: list[Call], own: list[Call]) -> set[str]:
    """The names of calls that are others than in another window; all where the rest has another order."""
    others, own = list(map(_undetailed, others)), list(map(_undetailed, own))
    if _Calls(others) == _Calls(own):
        return set()
    before, now = _by_name(others), _by_name(own)
    names = {*before, *now}
    changed = {name for name in names if _Calls(before.get(name, [])) != _Calls(now.get(name, []))}
    rest = names - changed
    if _Calls([one for one in others if one.name in rest]) != _Calls([one for one in own if one.name in rest]):
        changed = names
    return changed | {_CALLS}


class Forms:
    """Compares each window of a rank with those before, of which forms are kept to be known again.

    Attributes:
        whole: Whether the window is one that can repeat: a complete one with a step, in which nothing became known.
        aspects: What is the same for who looks at a part of a window, by what it looks at.
        alike: How many windows in a row had the form of the one before, in everything.
        form: The number of the window's form: windows with the same one have the same form, apart from rates. Others may
            have it, too, where a form was forgotten. -1 for a window that cannot repeat.
        rates: How often the rates have changed.
    """

    def __init__(self, looks: Iterable[frozenset[str]]) -> None:
        """Take what relations look at."""
        self._looks = list(dict.fromkeys(looks))
        self.aspects = {one: Aspect(self, one) for one in self._looks}
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


class Aspect:
    """Which forms are the same for those that look at some words of them, so that this is worked out once for each form."""

    __slots__ = ("_forms", "_known", "_looks")

    def __init__(self, forms: Forms, looks: frozenset[str]) -> None:
        self._forms = forms
        self._looks = looks
        self._known: dict[int, int] = {-1: -1}

    def of(self, form: int) -> int:
        """The number that a form goes by: that of a form which is the same, and which came before; -1 stays what it is."""
        known = self._known.get(form)
        return self._find(form) if known is None else known

    def _find(self, form: int) -> int:
        if len(self._known) > _MOST_FORMS:
            self._known = {-1: -1}
        last = [*self._known.items()][-_MOST_COMPARED:]
        found = (number for one, number in reversed(last) if self._forms.same(self._looks, one, form))
        known = self._known[form] = next(found, form)
        return known


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


def _same_call(one: Call, other: Call) -> bool:
    """Whether two calls are the same but for numbers, times and the iteration; of such as count, but for what they count."""
    if one[_NAME:_PARENT] != other[_NAME:_PARENT] or one[_THREAD:_ARGUMENTS] != other[_THREAD:_ARGUMENTS]:
        return False
    if (one.parent < 0) != (other.parent < 0):
        return False
    if one[_ARGUMENTS:] == other[_ARGUMENTS:]:
        return True
    return one.name in _COUNTING and one.error == other.error and _words(one) == _words(other)


def _words(call: Call) -> list[dict[str, str]]:
    parts: list[Mapping[str, Any]] = [call.args or {}, call.result or {}]
    return [{key: value for key, value in part.items() if isinstance(value, str)} for part in parts]


def _order(begun: list[int], ended: list[int]) -> list[int] | None:
    """In which order calls began and ended; None when each ended before the next one began."""
    if all(map(le, ended, begun[1:])):
        return None
    numbers = [*begun, *ended]
    return sorted(range(len(numbers)), key=numbers.__getitem__)
