"""Violations to groups: what was seen again is counted, what comes from one cause is told as one."""

from __future__ import annotations

from typing import Any

import msgspec

from preflight.monitor.relation import Example, Relation
from preflight.monitor.series import Marks
from preflight.monitor.window import Window
from preflight.vocabulary.finding import Location
from preflight.vocabulary.invariant import Invariant, Violation

_TOGETHER = 2
"""Iterations within which violations are taken to have one cause."""
_MOST_NAMES = 200
_AROUND = 8


class _Open:
    """A violation that may still be seen again."""

    def __init__(self, violation: Violation, priority: int, group: int) -> None:
        self.violation = violation
        self.priority = priority
        self.group = group
        self.last_iteration = violation.first_iteration


class Groups:
    """All violations of a run."""

    def __init__(self) -> None:
        self._open: list[_Open] = []
        self._by_invariant: dict[str, list[_Open]] = {}
        self._starts: list[int] = []
        self.marks = Marks()

    def add(self, kind: type[Relation], invariant: Invariant, example: Example, window: Window) -> Violation | None:
        """Count an example that broke an invariant; return the violation when it is a new one."""
        self.marks.add(_ranks(example, window), window.step)
        for known in self._by_invariant.get(invariant.id, ()):
            if self._same(known, example, window):
                self._again(known, example, window)
                return None
        violation = _violation(kind, invariant, example, window)
        group = self._group_of(window.iteration, example.began)
        violation = msgspec.structs.replace(violation, group=group)
        opened = _Open(violation, kind.priority, group)
        self._open.append(opened)
        self._by_invariant.setdefault(invariant.id, []).append(opened)
        return violation

    def violations(self) -> list[Violation]:
        """All violations: by group, the root of each first."""
        ordered = sorted(
            self._open,
            key=lambda one: (one.group, one.priority, one.violation.first_iteration, one.violation.invariant),
        )
        return [one.violation for one in ordered]

    def _same(self, known: _Open, example: Example, window: Window) -> bool:
        """Whether an example tells again what is known: of the same variables, or in the same place and time."""
        old = known.violation
        if not example.variables or set(example.variables) & set(old.variables):
            return True
        return window.iteration - known.last_iteration <= 1

    def _again(self, known: _Open, example: Example, window: Window) -> None:
        old = known.violation
        known.last_iteration = max(known.last_iteration, window.iteration)
        names = dict.fromkeys(old.variables)
        if len(names) < _MOST_NAMES and window.iteration - old.first_iteration <= _TOGETHER:
            names.update(dict.fromkeys(example.variables))
        ranks = tuple(sorted({*old.ranks, *_ranks(example, window)}))
        known.violation = msgspec.structs.replace(
            old, count=old.count + 1, last_step=max(old.last_step, window.step), ranks=ranks, variables=tuple(names)
        )

    def _group_of(self, iteration: int, began: int | None = None) -> int:
        """The group of a violation that begins in an iteration: an open one, or a new one.

        What was told late belongs to what began with it.
        """
        if began is not None:
            for number in range(len(self._starts), 0, -1):
                if 0 <= began - self._starts[number - 1] <= _TOGETHER:
                    return number
        if self._starts and iteration - self._starts[-1] <= _TOGETHER:
            return len(self._starts)
        self._starts.append(iteration)
        return len(self._starts)


def _ranks(example: Example, window: Window) -> tuple[int, ...]:
    told: Any = example.context.get("ranks")
    return tuple(told) if isinstance(told, (list, tuple)) else (window.rank,)


def _violation(kind: type[Relation], invariant: Invariant, example: Example, window: Window) -> Violation:
    call = example.call
    # A trainer goes backward itself; the loss is in the step of the person's own that it had called.
    place = ((call.args or {}).get("computed") or call.place) if call is not None else None
    path, _, line = place.rpartition(":") if place else ("", "", "")
    ranks = _ranks(example, window)
    try:
        cause, advice = kind.explain(example)
    except Exception:  # an alarm without its example's own words is better than none
        cause, advice = kind.cause, kind.advice
    message = example.detail or f"No longer holds: {_learnt(kind, invariant)}"
    from preflight.vocabulary.finding import Fix

    return Violation(
        rule=kind.name,
        code=invariant.id,
        severity=invariant.severity,
        confidence="certain" if invariant.confidence >= 1 else "likely",
        message=message,
        location=Location(
            path=path or None, line=int(line) if line.isdigit() else None, rank=ranks[0], step=window.step
        ),
        fix=Fix(title=advice) if advice else None,
        invariant=invariant.id,
        relation=kind.name,
        category=kind.category,
        first_step=window.step,
        first_iteration=window.iteration,
        last_step=window.step,
        ranks=ranks,
        variables=example.variables[:_MOST_NAMES],
        expected=example.expected,
        seen=example.seen,
        cause=cause or None,
        neighbourhood=_around(example, window),
    )


def _learnt(kind: type[Relation], invariant: Invariant) -> str:
    """What must hold, without the conditions under which it was learnt: ``monitor show`` tells these."""
    return kind.sentence(invariant.subject).strip().rstrip(".") or invariant.text


def _around(example: Example, window: Window) -> tuple[str, ...]:
    """The calls before and after, the call itself marked."""
    calls = [call for call in window.calls if call.name not in ("module", "ways") or call is example.call]
    if example.call is None or example.call not in calls:
        return tuple(call.line for call in calls[:_AROUND])
    at = calls.index(example.call)
    low = max(0, at - _AROUND // 2)
    return tuple(f"{'> ' if call is example.call else ''}{call.line}" for call in calls[low : low + _AROUND])
