"""A schedule is not stepped past its end."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window


class ScheduleWithinHorizon(Relation):
    """A cosine schedule that was given a length does not go on past it, where its rate rises again.

    ``CosineAnnealingLR`` falls for ``T_max`` steps and then swings back up the same way. A length that was counted in
    epochs, with a step of the schedule in every iteration, gives a rate that goes up and down all through the run.
    Judged when the count passes the length and the rate is higher than at the step before.
    """

    name = "schedule-within-horizon"
    needs = frozenset({"scheduler.step"})
    wakes = frozenset({"scheduler.step"})
    whole = False
    severity = "warning"
    priority = 27
    cause = (
        "the length of the schedule counts epochs and it is stepped in every iteration, or the run is longer than it"
    )
    advice = "give the schedule the number of times it is stepped, or use CosineAnnealingWarmRestarts for cycles"

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("scheduler.step"):
            told, after = call.args or {}, call.result or {}
            if "horizon" not in told or call.object != "CosineAnnealingLR" or not isinstance(after.get("count"), int):
                continue
            before, now = told.get("before") or [], after.get("rates") or []
            rises = len(before) == len(now) and any(b > a * (1 + 1e-9) for a, b in zip(before, now, strict=True))
            wrong = after["count"] > told["horizon"] and rises
            yield Example(
                (),
                not wrong,
                {"scheduler": call.object},
                variables=(call.object,) if wrong else (),
                expected=f"at most {told['horizon']} steps of the schedule",
                seen=f"step {after['count']}, with a rate that rises" if wrong else None,
                call=call,
                detail=f"{call.object} goes on past its length of {told['horizon']} steps" if wrong else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(4)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(6)


def _run(count: int) -> list[Window]:
    rates = [0.1, 0.075, 0.05, 0.025, 0.0, 0.025, 0.05]
    mini = Mini({"model.weight": {}})
    more = {"args": {"horizon": 4, "before": [rates[count - 1]]}, "result": {"count": count, "rates": [rates[count]]}}
    return [mini.window("step optimizer0:SGD", ("scheduler.step CosineAnnealingLR", more))]
