"""Checks windows against invariants, one after the other, whether they come from a file or from a run that goes on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from preflight.monitor.judging.examples import Examples, Failure, Judged
from preflight.monitor.judging.grouping import Groups
from preflight.monitor.judging.sleeper import Again
from preflight.monitor.keys import frozen
from preflight.monitor.relation import UNSEEN, Example, Relation, relations
from preflight.monitor.scope import MODEL, scope_of
from preflight.monitor.window import Window
from preflight.vocabulary.invariant import Invariant, Violation

_MOST_CONTEXTS = 1024


class _Watch:
    """One relation with the invariants in force.

    Attributes:
        general: Those of everything that the relation speaks of.
        special: Those of a subject, by it.
        counts: Whether an example that holds breaks none of them, whatever it is of.
    """

    def __init__(self, kind: type[Relation], invariants: Sequence[Invariant]) -> None:
        self.kind = kind
        self.general: list[_Force] = []
        self.special: dict[tuple[Any, ...], list[_Force]] = {}
        for one in invariants:
            if any(field in one.subject for field in kind.fields):
                key = tuple(frozen(one.subject.get(field)) for field in kind.fields)
                self.special.setdefault(key, []).append(_Force(one))
            else:
                self.general.append(_Force(one))
        self.counts = (
            not kind.bounded
            and not self.special
            and not any(one.allowed is not None or one.invariant.precondition for one in self.general)
        )

    def of(self, example: Example, window: Window) -> list[_Force]:
        """The invariants that speak of an example's subject, in the training of the models that they were learnt of."""
        if not self.special:
            return self.general
        found = self.special.get(frozen(example.subject))
        if not found:
            return self.general
        scope = scope_of(window, self.kind.needs)
        return self.general + [force for force in found if force.model is None or force.model == scope]


class _Force:
    """An invariant in force, with what it allows as keys."""

    __slots__ = ("_applies", "allowed", "invariant", "judged", "model")

    def __init__(self, invariant: Invariant) -> None:
        self.invariant = invariant
        self._applies: dict[tuple[tuple[str, Any], ...], bool] = {}
        self.judged = 0
        self.model: str | None = invariant.subject.get(MODEL)
        self.allowed: frozenset[Any] | None = None
        if "value" in invariant.subject:
            self.allowed = frozenset((frozen(invariant.subject["value"]),))
        elif "values" in invariant.subject:
            self.allowed = frozenset(frozen(value) for value in invariant.subject["values"])

    def applies(self, context: Mapping[str, Any]) -> bool:
        """Whether the precondition holds in a context; there are few of them, which come again and again."""
        key = tuple(context.items())
        try:
            known = self._applies.get(key)
        except TypeError:  # a list in it
            return self.invariant.applies(context)
        if known is None:
            if len(self._applies) >= _MOST_CONTEXTS:
                self._applies.clear()
            known = self._applies[key] = self.invariant.applies(context)
        return known

    def speaks_of(self, example: Example) -> bool:
        """Whether an example of its subject is one in which it must hold."""
        return not self.invariant.precondition or self.applies(example.context)

    def broken(self, example: Example, kind: type[Relation]) -> Example | None:
        """The example as it is told when it breaks the invariant; None when it does not."""
        if not self.speaks_of(example):
            return None
        invariant = self.invariant
        self.judged += 1
        if example.value is UNSEEN:
            return None if example.holds else example
        subject = invariant.subject
        expected: Any
        if kind.bounded:
            expected = kind.expected_of(subject, example.value)
            if expected is None:
                return None
        elif self.allowed is None or frozen(example.value) in self.allowed:
            return None
        else:
            expected = (
                kind.words(subject["value"]) if "value" in subject else [kind.words(one) for one in subject["values"]]
            )
        said = example.detail or kind.departure(subject, example.value)
        return example._replace(expected=expected, seen=kind.words(example.value), detail=said)


class Engine:
    """Holds invariants against the windows of all ranks.

    The result depends on the windows alone, not on when they come or in which pieces.

    Attributes:
        groups: The violations so far, grouped by cause.
    """

    def __init__(self, invariants: Iterable[Invariant]) -> None:
        """Take the invariants in force; suppressed ones and those of relations that are not known are left out."""
        known = relations()
        by_relation: dict[str, list[Invariant]] = {}
        self.unknown: list[Invariant] = []
        for one in invariants:
            if one.relation not in known:
                self.unknown.append(one)
            elif one.suppressed is None:
                by_relation.setdefault(one.relation, []).append(one)
        self._watches = [_Watch(known[name], by_relation[name]) for name in sorted(by_relation)]
        special = [number for number, watch in enumerate(self._watches) if watch.special]
        self._examples = Examples([watch.kind for watch in self._watches], restless=special)
        self.groups = Groups()

    @property
    def judged(self) -> dict[str, int]:
        """In how many examples each invariant was judged, by its id."""
        self._count(self._examples.again())
        forces = (force for watch in self._watches for force in _all(watch))
        return {force.invariant.id: force.judged for force in forces if force.judged}

    @property
    def failures(self) -> list[Failure]:
        """The relations that failed, and judge nothing any more."""
        return self._examples.failures

    def see(self, window: Window) -> list[Violation]:
        """Judge a window; return the violations that are new with it."""
        again, judged = self._examples.wake(window)
        if again:
            self._count(again)
        return self._judge(judged)

    def ended(self, rank: int) -> list[Violation]:
        """A rank gives no more windows: nothing waits for it any longer."""
        return self._judge(self._examples.ended(rank))

    def finish(self) -> list[Violation]:
        """No rank gives any more."""
        return self._judge(self._examples.finish())

    def violations(self) -> list[Violation]:
        """All violations so far, the root of each group first, in the order of their steps."""
        return self.groups.violations()

    def _judge(self, judged: list[Judged]) -> list[Violation]:
        found: list[Violation] = []
        for number, examples, window in judged:
            watch = self._watches[number]
            held = 0
            for example in examples:
                if watch.counts and (example.holds or example.value is not UNSEEN):
                    held += 1
                else:
                    found += self._broken(watch, example, window)
            if held:
                for force in watch.general:
                    force.judged += held
        return found

    def _count(self, again: list[Again]) -> None:
        """Count what was said again and again: it holds, so that nothing is broken by it."""
        for number, examples, times in again:
            for force in self._watches[number].general:
                force.judged += times * sum(map(force.speaks_of, examples))

    def _broken(self, watch: _Watch, example: Example, window: Window) -> Iterator[Violation]:
        """Hold an example against each invariant that speaks of it; give the violations that are new with it."""
        for force in watch.of(example, window):
            told = force.broken(example, watch.kind)
            new = None if told is None else self.groups.add(watch.kind, force.invariant, told, window)
            if new is not None:
                yield new


def _all(watch: _Watch) -> list[_Force]:
    return watch.general + [force for forces in watch.special.values() for force in forces]
