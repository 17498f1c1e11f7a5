"""A schedule belongs to the optimizer that trains."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.schedules import Advance, advances_of
from preflight.monitor.views.steps import optimizer_number
from preflight.monitor.window import Window

_TIMES = 3
"""Changes of the rate of an optimizer that never stepped, after which it is not one whose turn is still to come."""


class ScheduleHasItsOptimizer(Relation):
    """A scheduler that advances belongs to an optimizer that steps.

    Where an optimizer is made anew for a second stage, the scheduler of the first keeps changing the rate of an
    optimizer that nobody uses, and the new one keeps the rate it was made with.
    Judged when a scheduler advances, its optimizer having stepped before: it must have stepped since the scheduler's
    advance before, unless no other optimizer stepped either. It is broken when that happens twice in succession while
    the optimizer that steps instead owns no parameters of its own: the same ones belong to both.
    An optimizer that has never stepped is judged where nothing that it holds is part of a model that is called: a schedule
    that was restored with a copy of its optimizer steers that copy. So is one that was made over the parameters of the one
    that steps, where the schedule changes its rate several times and the rate of the steps stays: a wrapper shares its rate
    with what it wraps, and a program may carry it over by hand.
    """

    name = "schedule-has-its-optimizer"
    needs = frozenset({"scheduler.step", "step"})
    follows = (advances_of,)
    wakes = frozenset({"scheduler.step", "optimizer.new", "scalar lr"})
    whole = False
    severity = "warning"
    priority = 23
    cause = "a new optimizer was made and the scheduler of the old one is still stepped"
    advice = "make the scheduler again whenever the optimizer is made again"

    def __init__(self) -> None:
        self._idle: dict[str, int] = {}
        self._sizes: dict[int, int] = {}  # by optimizer: how many parameters it was made with
        self._rates: dict[int, dict[str, float | None]] = {}  # by optimizer: the rates of its groups
        self._apart: dict[
            str, tuple[object, object, int]
        ] = {}  # by scheduler: both rates, and times that only its own moved

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("optimizer.new"):
            self._sizes[optimizer_number(call)] = sum((call.args or {}).get("sizes") or ())
        for number in window.numbers:
            owner = number.object.partition(":")[0].removeprefix("optimizer")
            if number.name == "lr" and owner.isdigit():
                self._rates.setdefault(int(owner), {})[number.object] = number.value
        for advance in advances_of(window):
            if not advance.steps and advance.optimizer not in {one.optimizer for one in window.run.variables.values()}:
                yield from self._over_another(advance)
                continue
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

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        first = [mini.window("backward", "step optimizer0:SGD", ("scheduler.step LambdaLR", _ADVANCE))]
        other = ("backward", "step optimizer1:SGD", ("scheduler.step LambdaLR", _ADVANCE))
        yield first + [mini.window(*other) for _ in range(3)]
        mini = Mini({"model.weight": {"optimizer": 1}, "optimizer0.group0.0": {"optimizer": 0}})
        yield [mini.window(*other) for _ in range(4)]
        yield _over_one(follows=False)


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
