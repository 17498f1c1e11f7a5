"""A schedule belongs to the optimizer that trains."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.schedules import Advance, advances_of
from preflight.monitor.views.steps import optimizer_number
from preflight.monitor.window import Window


class ScheduleHasItsOptimizer(Relation):
    """A scheduler that advances belongs to an optimizer that steps.

    Where an optimizer is made anew for a second stage, the scheduler of the first keeps changing the rate of an
    optimizer that nobody uses, and the new one keeps the rate it was made with.
    Judged when a scheduler advances, its optimizer having stepped before: it must have stepped since the scheduler's
    advance before, unless no other optimizer stepped either. It is broken when that happens twice in succession while
    the optimizer that steps instead owns no parameters of its own: the same ones belong to both.
    An optimizer that has never stepped is judged where nothing that it holds is part of a model that is called: a schedule
    that was restored with a copy of its optimizer steers that copy.
    """

    name = "schedule-has-its-optimizer"
    needs = frozenset({"scheduler.step", "step"})
    follows = (advances_of,)
    wakes = frozenset({"scheduler.step"})
    whole = False
    severity = "warning"
    priority = 23
    cause = "a new optimizer was made and the scheduler of the old one is still stepped"
    advice = "make the scheduler again whenever the optimizer is made again"

    def __init__(self) -> None:
        self._idle: dict[str, int] = {}

    def see(self, window: Window) -> Iterator[Example]:
        for advance in advances_of(window):
            if advance.first or not (advance.steps or self._copy(advance.optimizer, window)):
                continue
            stepped = {optimizer_number(one) for one in advance.between if one.name in ("step", "scaler.step")}
            owners = {one.optimizer for one in window.run.variables.values()}
            instead = {number for number in stepped - {advance.optimizer} if number >= 0}
            if advance.steps:
                instead -= owners
            idle = advance.optimizer not in stepped and bool(instead)
            count = self._idle[advance.scheduler] = self._idle.get(advance.scheduler, 0) + 1 if idle else 0
            yield self._example(advance, count < 2, sorted(instead))

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

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        first = [mini.window("backward", "step optimizer0:SGD", ("scheduler.step LambdaLR", _ADVANCE))]
        other = ("backward", "step optimizer1:SGD", ("scheduler.step LambdaLR", _ADVANCE))
        yield first + [mini.window(*other) for _ in range(3)]
        mini = Mini({"model.weight": {"optimizer": 1}, "optimizer0.group0.0": {"optimizer": 0}})
        yield [mini.window(*other) for _ in range(4)]


_ADVANCE = {"args": {"index": 0, "optimizer": "optimizer0:SGD"}}
