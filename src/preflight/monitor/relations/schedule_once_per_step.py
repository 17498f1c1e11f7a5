"""The schedule advances once for each step."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.schedules import Advance, advances_of, own
from preflight.monitor.window import Window


class ScheduleOncePerStep(Relation):
    """Between two steps of its optimizer a scheduler advances at most once.

    A schedule is as long as somebody counted steps; where it advances once for each micro-batch, or once for each rank
    of a distributed run, it is at its end long before the training is, and the last part trains with the rate of its
    end, often zero.
    Two advances with neither a backward pass nor a step between them are wrong at once; advances after backward passes
    without a step are so when it happens in two steps in succession, because a single step may have been left out.
    Advances before any backward pass are not judged: a resumed run may bring its schedule to where it was.
    Nor are those of a library that is known to count batches of all ranks on purpose.
    """

    name = "schedule-once-per-step"
    needs = frozenset({"scheduler.step", "step"})
    follows = (advances_of,)
    wakes = frozenset({"scheduler.step"})
    whole = False
    severity = "warning"
    priority = 21
    cause = "scheduler.step() is called for each micro-batch or once for each rank, although the schedule counts steps"
    advice = (
        "call scheduler.step() once after each optimizer.step(), or make the schedule as long as it is called, and at "
        "one place only"
    )

    def __init__(self) -> None:
        self._extra: dict[str, int] = {}
        self._rows: dict[str, int] = {}

    def see(self, window: Window) -> Iterator[Example]:
        for advance in advances_of(window):
            if not own(advance.call):
                continue
            since = [one.name for one in advance.between]
            if advance.first or not advance.tried:
                # Without a backward pass before it, a resumed run brings its schedule to where it was.
                early = "backward" in since and not advance.tried
                self._extra[advance.scheduler] = self._extra.get(advance.scheduler, 0) + early
                continue
            stepped = any(
                one.name in ("step", "scaler.step") and one.object.split(":")[0] == f"optimizer{advance.optimizer}"
                for one in advance.between
            )
            if stepped:
                extra, self._extra[advance.scheduler] = self._extra.get(advance.scheduler, 0), 0
                self._rows[advance.scheduler] = self._rows.get(advance.scheduler, 0) + 1 if extra else 0
                again = self._rows[advance.scheduler] >= 2
                yield self._example(advance, not again, extra + 1)
            elif "backward" not in since and "step" not in since:
                yield self._example(advance, False, 2)
            else:
                self._extra[advance.scheduler] = self._extra.get(advance.scheduler, 0) + 1

    @staticmethod
    def _example(advance: Advance, holds: bool, times: int) -> Example:
        return Example(
            (),
            holds,
            {"scheduler": advance.call.object},
            variables=() if holds else (advance.call.object, f"optimizer{advance.optimizer}"),
            expected="one advance of the schedule for each step",
            seen=None if holds else f"{times} or more advances for one step",
            call=advance.call,
            detail="" if holds else f"{advance.call.object} advances several times for one step of its optimizer",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        yield [mini.window("backward", "step optimizer0:SGD", ("scheduler.step LambdaLR", _ADVANCE)) for _ in range(3)]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        twice = (("scheduler.step LambdaLR", _ADVANCE),) * 2
        mini = Mini({"model.weight": {}})
        yield [mini.window("backward", "step optimizer0:SGD", *twice) for _ in range(2)]
        mini = Mini({"model.weight": {}})
        micro = ("backward", ("scheduler.step LambdaLR", _ADVANCE))
        yield [mini.window(*micro, *micro, "backward", "step optimizer0:SGD", micro[1]) for _ in range(4)]


_ADVANCE = {"args": {"index": 0, "optimizer": "optimizer0:SGD"}}
