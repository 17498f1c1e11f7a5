"""The samples that a data set holds stay as they are."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window

_NAME, _WRITTEN = "stored.rescaled", "stored.written"
_TIMES, _LONGER = 2, 3


class StoredSamplesStay(Relation):
    """What a data set keeps of its samples is not scaled, shifted or written into again with every pass over it.

    A row of a stored table is a view of it: what is normalised there in place (``x -= mean``, ``div_``) stays normalised,
    and is normalised once more by the next epoch. The samples shrink, or drift, from epoch to epoch.
    Judged are tables of numbers in memory of the processor that a data set holds as attributes, with a row of several
    numbers for each sample, by some of their rows as each loop over the loader begins. It is broken where all of these
    rows are others after each of two loops in a row, and are a factor times what they were and a number more, the same for
    all of them or for each column. So it is where each of these rows is another one after each of three loops, still goes with
    what it was, as where noise is added or a part is masked, and lies further from what it was at first each time, in a table
    with as many numbers to a row as the batches of the loader have to a sample.
    A table that is filled with other samples, or processed once, is not meant, nor are labels that are brought on.
    """

    name = "stored-samples-stay"
    category = "data"
    needs = frozenset({"loop", "scalar", "batch", _NAME, _WRITTEN})
    wakes = frozenset({f"scalar {_NAME}", f"scalar {_WRITTEN}", "batch"})
    whole = False
    priority = 6
    cause = "__getitem__ or the training loop changes a view of the stored data in place"
    advice = "write x = (x - mean) / std in place of x -= mean, or clone the row before it is changed"

    def __init__(self) -> None:
        self._times: dict[tuple[str, str], int] = {}
        self._sizes: dict[str, int] = {}  # by loader, the numbers of a sample

    def see(self, window: Window) -> Iterator[Example]:
        for number in window.numbers:
            if number.name not in (_NAME, _WRITTEN) or number.value is None:
                continue
            loader, _, table = number.object.partition("#")
            scaled = number.name == _NAME
            again = bool(number.value) if scaled else number.value == self._sizes.get(loader)
            key = number.object, number.name
            times = self._times[key] = self._times.get(key, 0) + 1 if again else 0
            wrong = times >= (_TIMES if scaled else _LONGER)
            what = "scaled or shifted" if scaled else "written into"
            loops = window.named("loop")
            yield Example(
                (),
                not wrong,
                {},
                variables=(loader, table) if wrong else (),
                expected="stored samples that are as they were when the loop before began" if wrong else None,
                seen=f"all rows of {table} were {what}, {times} loops in a row" if wrong else None,
                call=next((one for one in loops if one.object == loader), None),
                detail=f"The data set of {loader} is changed where it lies: each loop {'scales' if scaled else 'changes'} its "
                "samples once more"
                if wrong
                else "",
            )
        for batch in window.batches:
            if batch.shapes:
                self._sizes[batch.loader] = prod(batch.shapes[0][1:])

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(0.0, 0.0, 0.0)
        yield _run(1.0, 0.0, 1.0)  # processed once, and filled with other samples later
        yield _run(0.0, 3.0, 3.0, 3.0, 3.0, name=_WRITTEN)  # labels

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(0.0, 1.0, 1.0)
        yield _run(0.0, 12.0, 12.0, 12.0, name=_WRITTEN)


def _run(*changed: float, name: str = _NAME) -> list[Window]:
    mini = Mini({"model.weight": {}})
    batch = ("batch", {"shapes": [[8, 3, 4], [8]]})
    return [
        mini.window("loop loader0", ("scalar", name, "loader0#x", value), batch, "backward", "step optimizer0:SGD")
        for value in changed
    ]
