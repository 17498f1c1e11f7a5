"""A table is read at more than one row."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.tokens import looks_of, told
from preflight.monitor.window import Window


class PositionsDiffer(Relation):
    """A table with a row for each position of a sequence is not read at one row by all positions that count.

    Positions that are multiplied with the wrong side of a mask are all zero where there is something to learn, and token
    numbers that were lost on the way are all the same. Judged are tables with at least as many rows as the sequences
    are long that are read once for each position, over the positions that have a target; two batches in a row must agree.
    The one row must be the first, with rows that rise along the sequence elsewhere, or that of all positions: a model that
    is to tell masked tokens reads the row of the mask wherever something is to be told.
    A table that is read at one row of numbers for all samples is judged, too, where it is all that is added to that of the
    tokens: broken where these are zeros, as of ``zeros_like`` in place of ``arange``.
    """

    name = "positions-differ"
    midway = True
    needs = frozenset({"backward", "scalar"})
    wakes = frozenset({"scalar tokens.row"})
    whole = False
    severity = "warning"
    priority = 8
    cause = "the numbers that a table is read at were multiplied with a mask the other way round, or never filled in"
    advice = "print the numbers that the table is given for one sequence"

    def __init__(self) -> None:
        self._before: dict[tuple[str, int], bool] = {}

    def see(self, window: Window) -> Iterator[Example]:
        for number, look in enumerate(looks_of(window)):
            if look.row is None:
                continue
            single = look.row == 1.0
            wrong = single and self._before.get((look.place, number), False)
            self._before[look.place, number] = single
            yield Example(
                (),
                not wrong,
                {},
                variables=("positions", "embedding") if wrong else (),
                expected="a row for each position",
                seen="one row for all positions that count" if wrong else None,
                call=look.call,
                detail="A table is read at one single row by all positions that count" if wrong else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        yield [mini.window("backward", *told("train.py:9", row=row)) for row in (0.0, 1.0, 0.0)]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        yield [mini.window("backward", *told("train.py:9", row=1.0)) for _ in range(3)]
