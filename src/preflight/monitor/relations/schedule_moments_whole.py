"""The moments of a schedule are whole steps."""

from __future__ import annotations

import math
from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Call, Window


class ScheduleMomentsWhole(Relation):
    """A schedule in steps changes the rate after a whole number of them.

    A scheduler counts its advances and looks whether the count is a milestone, or divides by the size of its steps. A
    milestone of 0.75, meant as a share of the training, is never met; neither is, as good as ever, a step size of 0.001
    into which another setting was put. The rate stays as it is and nothing complains.
    Judged at each advance of a scheduler that has milestones or a step size.
    """

    name = "schedule-moments-whole"
    needs = frozenset({"scheduler.step"})
    wakes = frozenset({"scheduler.step"})
    repeats = 2
    looks = frozenset({"scheduler.step"})
    whole = False
    severity = "warning"
    priority = 22
    cause = "milestones are given as shares of the training, or another setting is given as the step size"
    advice = "give milestones and step sizes as numbers of scheduler steps, such as int(0.75 * epochs)"

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("scheduler.step"):
            moments = (call.args or {}).get("moments")
            if moments:
                yield self._example(call, [one for one in moments if math.isfinite(one) and one % 1])

    @staticmethod
    def _example(call: Call, broken: list[float]) -> Example:
        words = ", ".join(f"{one:g}" for one in broken[:4])
        return Example(
            (),
            not broken,
            {"scheduler": call.object},
            variables=(call.object,) if broken else (),
            expected="changes after whole numbers of steps",
            seen=f"changes at {words}" if broken else None,
            call=call,
            detail=f"{call.object} is to change the rate at {words}, which no count of steps meets" if broken else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _advanced([30, 60.0])

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _advanced([0.5, 0.75])


def _advanced(moments: list[float]) -> list[Window]:
    mini = Mini({"model.weight": {}})
    advance = ("scheduler.step MultiStepLR", {"args": {"optimizer": "optimizer0:SGD", "moments": moments}})
    return [mini.window("backward", "step optimizer0:SGD", advance) for _ in range(2)]
