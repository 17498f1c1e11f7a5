"""A schedule is not begun anew before its end."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.schedules import advances_of
from preflight.monitor.window import Call, Window
from preflight.vocabulary.counted import counted

_HALF = 0.5


class ScheduleGoesOn(Relation):
    """A schedule over the steps of a run is not replaced by one that begins the same length anew.

    Where a schedule is made inside the function that trains one epoch, each epoch has one of its own, made for all
    epochs: the rate goes back to its beginning every time and never gets to its end.
    Judged are schedules that know their length, where another one of the same class, the same length and the same place
    in the code goes on over the same optimizer from the beginning, while the one before had done less than half of its
    steps. Restarts of a schedule that was at its end are meant.
    """

    name = "schedule-goes-on"
    needs = frozenset({"scheduler.step", "step"})
    follows = (advances_of,)
    wakes = frozenset({"scheduler.step"})
    whole = False
    severity = "warning"
    priority = 22
    cause = "the schedule is made where an epoch begins, and not once before the training"
    advice = "make the schedule once, before the loop over epochs, and hand it to what trains an epoch"

    def __init__(self) -> None:
        self._last: dict[int, Call] = {}  # by optimizer: the last advance

    def see(self, window: Window) -> Iterator[Example]:
        for advance in advances_of(window):
            call = advance.call
            last = self._last.get(advance.optimizer)
            self._last[advance.optimizer] = call
            if last is not None and (call.args or {}).get("horizon"):
                yield self._example(call, self._again(last, call), last)

    @staticmethod
    def _again(last: Call, call: Call) -> bool:
        """Whether an advance is the first of a schedule that takes the place of one that was not half done."""
        before, given = last.args or {}, call.args or {}
        reached, done = (last.result or {}).get("count"), (call.result or {}).get("count")
        if before.get("index") == given.get("index") or not isinstance(reached, int) or not isinstance(done, int):
            return False
        same = (last.object, last.place, before.get("horizon")) == (call.object, call.place, given["horizon"])
        early = done <= 1 < reached < _HALF * given["horizon"]
        return same and early

    @staticmethod
    def _example(call: Call, again: bool, last: Call) -> Example:
        given, reached = call.args or {}, (last.result or {}).get("count")
        return Example(
            (),
            not again,
            {"scheduler": call.object},
            variables=(call.object, str(given.get("optimizer"))) if again else (),
            expected=f"one schedule of {given['horizon']} steps" if again else None,
            seen=f"another one begun after {counted(int(reached or 0), 'step')}" if again else None,
            call=call,
            detail=f"{call.object} is begun anew after {reached} of {given['horizon']} steps" if again else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run([(0, 1), (0, 2), (0, 3), (0, 4)], 4)
        yield _run([(0, 1), (0, 2), (0, 3), (1, 1)], 4)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run([(0, 1), (0, 2), (0, 3), (1, 1)], 40)


def _run(counts: list[tuple[int, int]], horizon: int) -> list[Window]:
    mini = Mini({"model.weight": {}})
    windows = []
    for index, count in counts:
        given = {"index": index, "optimizer": "optimizer0:SGD", "horizon": horizon, "before": [0.5 / count]}
        advance = ("scheduler.step CosineAnnealingLR", {"args": given, "result": {"count": count}})
        windows.append(mini.window("backward", "step optimizer0:SGD", advance))
    return windows
