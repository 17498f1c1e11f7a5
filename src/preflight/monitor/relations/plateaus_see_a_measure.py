"""A plateau is judged by a measure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Call, Window

_IN_A_ROW = 3


class PlateausSeeAMeasure(Relation):
    """A scheduler that waits for a plateau is told a measure, not the number of the epoch.

    Other schedulers were given the epoch in ``step(epoch)``; ``ReduceLROnPlateau.step`` takes what is to get better. The
    number of the epoch never does, when less is better: the rate falls again and again however well the training goes.
    When more is better it always does, and the rate never falls.
    Judged from the third call on: each number was the count of calls so far, from nought or from one.
    """

    name = "plateaus-see-a-measure"
    needs = frozenset({"scheduler.step"})
    wakes = frozenset({"scheduler.step"})
    whole = False
    priority = 20
    cause = "scheduler.step(epoch), as other schedulers take it, was called on a ReduceLROnPlateau"
    advice = "hand step() the loss or the score of the evaluation, and set mode to what is better of it"

    def __init__(self) -> None:
        self._counted: dict[tuple[str, object], tuple[float, int]] = {}  # by scheduler: the distance, and how often

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("scheduler.step"):
            told = call.args or {}
            measure, count = told.get("measure"), told.get("count")
            if not isinstance(measure, (int, float)) or not isinstance(count, int):
                continue
            key = call.object, told.get("index")
            distance = measure - count
            before, times = self._counted.get(key, (None, 0))
            times = times + 1 if distance in (0, 1) and before in (None, distance) else 0
            self._counted[key] = distance, times
            yield _example(call, measure, times >= _IN_A_ROW)

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _judged([0.0, 1.0, 1.5, 3.0])
        yield _judged([12, 13, 14, 15])

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _judged([0, 1, 2])
        yield _judged([1, 2, 3])


def _example(call: Call, measure: float, wrong: bool) -> Example:
    return Example(
        (),
        not wrong,
        {"scheduler": call.object},
        variables=(call.object,) if wrong else (),
        expected="a loss or a score",
        seen=f"{measure:g}, the number of the epoch, as in all calls before" if wrong else None,
        call=call,
        detail=f"{call.object} is told the number of the epoch, not a measure" if wrong else "",
    )


def _judged(measures: Sequence[float]) -> list[Window]:
    mini = Mini({"model.weight": {}})
    return [
        mini.window(
            "backward",
            "step optimizer0:SGD",
            ("scheduler.step ReduceLROnPlateau", {"args": {"index": 0, "count": count, "measure": measure}}),
        )
        for count, measure in enumerate(measures)
    ]
