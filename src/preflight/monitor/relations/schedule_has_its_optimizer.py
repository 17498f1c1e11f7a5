"""A schedule belongs to the optimizer that trains."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.schedules import Advance, advances_of
from preflight.monitor.views.steps import optimizer_number, steps_of
from preflight.monitor.window import Window

_TIMES = 3
"""Changes of the rate of an optimizer that never stepped, after which it is not one whose turn is still to come."""


class ScheduleHasItsOptimizer(Relation):
    """A scheduler that advances belongs to an optimizer that steps.

    Where an optimizer is made anew for a second stage, the scheduler of the first keeps changing the rate of an
    optimizer that nobody uses, and the new one keeps the rate it was made with.
    Judged when a scheduler advances, its optimizer having stepped before: it must have stepped since the scheduler's
    advance before, unless no other optimizer stepped either. It is broken when that happens twice in succession while
    the optimizer that steps instead owns no parameters of its own: the same ones belong to both. One that holds more than
    those is judged where it was made after the other's last step, has no schedule itself and keeps its rate, as where
    layers are thawed.
    An optimizer that has never stepped is judged where nothing that it holds is part of a model that is called: a schedule
    that was restored with a copy of its optimizer steers that copy. So is one that was made over the parameters of the one
    that steps, where the schedule changes its rate several times and the rate of the steps stays: a wrapper shares its rate
    with what it wraps, and a program may carry it over by hand.
    """

    name = "schedule-has-its-optimizer"
    needs = frozenset({"scheduler.step", "step"})
    follows = (advances_of,)
    wakes = frozenset({"scheduler.step", "scheduler.new", "optimizer.new", "scalar lr", "parameters before a step"})
    whole = False
    severity = "warning"
    priority = 23
    cause = "a new optimizer was made and the scheduler of the old one is still stepped"
    advice = "make the scheduler again whenever the optimizer is made again"

    def __init__(self) -> None:
        self._idle: dict[str, int] = {}
        self._sizes: dict[int, int] = {}  # by optimizer: how many parameters it was made with
        self._made: dict[int, int] = {}  # and when
        self._held: dict[int, frozenset[int]] = {}  # and the parameters that it was seen to hold
        self._stepped: dict[int, int] = {}  # and when it stepped last
        self._moved: set[int] = set()  # optimizers of which a rate has changed
        self._scheduled: set[str] = set()  # optimizers that a schedule was made for, as they are called
        self._rates: dict[int, dict[str, float | None]] = {}  # by optimizer: the rates of its groups
        self._apart: dict[
            str, tuple[object, object, int]
        ] = {}  # by scheduler: both rates, and times that only its own moved

    def see(self, window: Window) -> Iterator[Example]:
        self._meet(window)
        for number in window.numbers:
            owner = number.object.partition(":")[0].removeprefix("optimizer")
            if number.name == "lr" and owner.isdigit():
                known = self._rates.setdefault(int(owner), {})
                if known.get(number.object, number.value) != number.value:
                    self._moved.add(int(owner))
                known[number.object] = number.value
        for advance in advances_of(window):
            self._scheduled.add(str((advance.call.args or {}).get("optimizer")))
            self._stepped.update({optimizer_number(one): one.q for one in advance.between if one.name == "step"})
            if not advance.steps and advance.optimizer not in {one.optimizer for one in window.run.variables.values()}:
                yield from self._over_another(advance)
                continue
            if advance.first or not (advance.steps or self._copy(advance.optimizer, window)):
                continue
            stepped = {optimizer_number(one) for one in advance.between if one.name in ("step", "scaler.step")}
            owners = {one.optimizer for one in window.run.variables.values()}
            instead = {number for number in stepped - {advance.optimizer} if number >= 0}
            if advance.steps:
                instead -= {one for one in owners if not self._took_over(one, advance.optimizer)}
            idle = advance.optimizer not in stepped and bool(instead)
            count = self._idle[advance.scheduler] = self._idle.get(advance.scheduler, 0) + 1 if idle else 0
            yield self._example(advance, count < 2, sorted(instead))

    def _meet(self, window: Window) -> None:
        """Take in the optimizers and schedules that are made, and what the optimizers hold."""
        for call in window.named("optimizer.new"):
            self._sizes[optimizer_number(call)] = sum((call.args or {}).get("sizes") or ())
            self._made[optimizer_number(call)] = call.q
        self._scheduled.update(str((call.args or {}).get("optimizer")) for call in window.named("scheduler.new"))
        for step in steps_of(window):
            if step.before is not None and len(self._held.get(step.optimizer, ())) != len(step.before.ids):
                self._held[step.optimizer] = frozenset(step.before.ids)

    def _took_over(self, later: int, earlier: int) -> bool:
        """Whether an optimizer was made after the last step of another, holds all that it held, and keeps its rate."""
        held = self._held.get(earlier, frozenset())
        after = self._made.get(later, -1) > self._stepped.get(earlier, sys.maxsize)
        scheduled = any(word.partition(":")[0] == f"optimizer{later}" for word in self._scheduled)
        steered = scheduled or later in self._moved
        return bool(held) and after and not steered and held < self._held.get(later, frozenset())

    def _over_another(self, advance: Advance) -> Iterator[Example]:
        """Judge a schedule of an optimizer that never stepped and holds what another one holds, too."""
        size = self._sizes.get(advance.optimizer, 0)
        stepped = {optimizer_number(one) for one in advance.between if one.name in ("step", "scaler.step")}
        others = sorted(one for one in stepped if size and self._sizes.get(one) == size and self._rates.get(one))
        if len(others) != 1:
            return
        own, theirs = (advance.call.args or {}).get("before"), dict(self._rates[others[0]])
        old, before, times = self._apart.get(advance.scheduler, (own, theirs, 0))
        times = times + 1 if own != old and theirs == before else 0 if theirs != before else times
        self._apart[advance.scheduler] = own, theirs, times
        yield self._example(advance, times < _TIMES, others)

    @staticmethod
    def _copy(optimizer: int, window: Window) -> bool:
        """Whether an optimizer holds something, and nothing of it is part of a model."""
        roots = {one.root for one in window.run.variables.values() if one.optimizer == optimizer}
        return roots == {f"optimizer{optimizer}"}

    @staticmethod
    def _example(advance: Advance, holds: bool, instead: list[int]) -> Example:
        names = tuple(f"optimizer{number}" for number in instead)
        return Example(
            (),
            holds,
            {"scheduler": advance.call.object},
            variables=() if holds else (advance.call.object, f"optimizer{advance.optimizer}", *names),
            expected=f"steps of optimizer{advance.optimizer}, whose rate the scheduler sets",
            seen=None if holds else f"steps of {', '.join(names)} only",
            call=advance.call,
            detail="" if holds else f"{advance.call.object} sets the rate of an optimizer that does not step any more",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        yield [mini.window("backward", "step optimizer0:SGD", ("scheduler.step LambdaLR", _ADVANCE)) for _ in range(3)]
        yield _over_one(follows=True)
        yield _thawed(scheduled=True)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        first = [mini.window("backward", "step optimizer0:SGD", ("scheduler.step LambdaLR", _ADVANCE))]
        other = ("backward", "step optimizer1:SGD", ("scheduler.step LambdaLR", _ADVANCE))
        yield first + [mini.window(*other) for _ in range(3)]
        mini = Mini({"model.weight": {"optimizer": 1}, "optimizer0.group0.0": {"optimizer": 0}})
        yield [mini.window(*other) for _ in range(4)]
        yield _over_one(follows=False)
        yield _thawed(scheduled=False)


def _thawed(scheduled: bool) -> list[Window]:
    """An optimizer over a head, whose schedule is stepped on after another one was made over the whole network."""
    mini = Mini({"body.weight": {"optimizer": 1}, "head.weight": {}})
    head, whole = {"head.weight": 1.0}, {"body.weight": 1.0, "head.weight": 1.0}
    schedule, advance = "scheduler.new StepLR", ("scheduler.step StepLR", _ADVANCE)
    first = ("backward", ("before", head, {"optimizer": 0}), "step optimizer0:SGD", advance)
    windows = [
        mini.window((schedule, {"args": {"index": 0, "optimizer": "optimizer0:SGD"}}), *first),
        mini.window(*first),
    ]
    made: list[Any] = [("optimizer.new optimizer1:SGD", {"args": {"index": 1, "sizes": [2]}})]
    made += [(schedule, {"args": {"index": 1, "optimizer": "optimizer1:SGD"}})] if scheduled else []
    other = ("backward", ("before", whole, {"optimizer": 1}), "step optimizer1:SGD", advance)
    return [*windows, mini.window(*made, *other), *(mini.window(*other) for _ in range(3))]


def _over_one(follows: bool) -> list[Window]:
    """A schedule of an optimizer that never steps, over the parameters of one that does, whose rate follows or does not."""
    mini = Mini({"model.weight": {}})
    new = [(f"optimizer.new optimizer{number}:SGD", {"args": {"index": number, "sizes": [1]}}) for number in (0, 1)]
    windows = [mini.window(*new)]
    for count in range(5):
        rate = 0.1 * (count + 1)
        told = {"args": {"index": 0, "optimizer": "optimizer1:SGD", "before": [rate]}}
        used = ("scalar", "lr", "optimizer0:SGD.0", rate if follows else 0.1)
        windows.append(mini.window("backward", used, "step optimizer0:SGD", ("scheduler.step LambdaLR", told)))
    return windows


_ADVANCE = {"args": {"index": 0, "optimizer": "optimizer0:SGD"}}
