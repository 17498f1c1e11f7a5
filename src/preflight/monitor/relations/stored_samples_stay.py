"""The samples that a data set holds stay as they are."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window

_NAME = "stored.rescaled"
_TIMES = 2


class StoredSamplesStay(Relation):
    """What a data set keeps of its samples is not scaled or shifted again with every pass over it.

    A row of a stored table is a view of it: what is normalised there in place (``x -= mean``, ``div_``) stays normalised,
    and is normalised once more by the next epoch. The samples shrink, or drift, from epoch to epoch.
    Judged are tables of numbers in memory of the processor that a data set holds as attributes, with a row of several
    numbers for each sample, by some of their rows as each loop over the loader begins. It is broken where all of these
    rows are others after each of two loops in a row, and are a factor times what they were and a number more, the same for
    all of them or for each column. A table that is filled with other samples, or processed once, is not meant.
    """

    name = "stored-samples-stay"
    category = "data"
    needs = frozenset({"loop", "scalar", _NAME})
    wakes = frozenset({f"scalar {_NAME}"})
    whole = False
    priority = 6
    cause = "__getitem__ or the training loop changes a view of the stored data in place"
    advice = "write x = (x - mean) / std in place of x -= mean, or clone the row before it is changed"

    def __init__(self) -> None:
        self._times: dict[str, int] = {}

    def see(self, window: Window) -> Iterator[Example]:
        for number in window.numbers:
            if number.name != _NAME or number.value is None:
                continue
            times = self._times[number.object] = self._times.get(number.object, 0) + 1 if number.value else 0
            wrong = times >= _TIMES
            loader, _, table = number.object.partition("#")
            loops = window.named("loop")
            yield Example(
                (),
                not wrong,
                {},
                variables=(loader, table) if wrong else (),
                expected="stored samples that are as they were when the loop before began" if wrong else None,
                seen=f"all rows of {table} were scaled or shifted, {times} loops in a row" if wrong else None,
                call=next((one for one in loops if one.object == loader), None),
                detail=f"The data set of {loader} is changed where it lies: each loop scales its samples once more"
                if wrong
                else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(0.0, 0.0, 0.0)
        yield _run(1.0, 0.0, 1.0)  # processed once, and filled with other samples later

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(0.0, 1.0, 1.0)


def _run(*rescaled: float) -> list[Window]:
    mini = Mini({"model.weight": {}})
    return [
        mini.window("loop loader0", ("scalar", _NAME, "loader0#x", value), "backward", "step optimizer0:SGD")
        for value in rescaled
    ]
