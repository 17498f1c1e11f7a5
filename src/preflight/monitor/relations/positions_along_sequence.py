"""Positions are counted along the sequence, not along the batch."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.tokens import looks_of, told
from preflight.monitor.window import Window


class PositionsAlongSequence(Relation):
    """A table of positions is read at a row for each position of a sequence, not at one for each sample of the batch.

    Where the wrong axis is asked for its length, the first sample gets the first row at all of its positions, and the
    second one the second: the model knows nothing of order, and what it says of a sample depends on its place in the
    batch. All shapes fit.
    Judged are tables that are added to one of tokens, with more rows than the batch has samples, that are read at as many
    rows as there are samples, for two looks in a row: broken where these are counted from the first on both times.
    """

    name = "positions-along-sequence"
    midway = True
    needs = frozenset({"backward", "scalar"})
    wakes = frozenset({"scalar tokens.crossed"})
    whole = False
    priority = 8
    cause = "the positions are made with x.size(0), the samples of the batch, in place of x.size(1)"
    advice = "make the positions as torch.arange(x.size(1)) where the first axis of the input are the samples"

    def __init__(self) -> None:
        self._before: dict[str, bool] = {}

    def see(self, window: Window) -> Iterator[Example]:
        for look in looks_of(window):
            if look.crossed is None:
                continue
            crossed = look.crossed == 1.0
            wrong = crossed and self._before.get(look.place, False)
            self._before[look.place] = crossed
            yield Example(
                (),
                not wrong,
                {},
                variables=("positions", "embedding") if wrong else (),
                expected="a row for each position",
                seen="a row for each sample of the batch, counted from the first" if wrong else None,
                call=look.call,
                detail="Positions are counted along the samples of the batch" if wrong else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        yield [mini.window("backward", *told("train.py:9", crossed=one)) for one in (0.0, 1.0, 0.0)]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        yield [mini.window("backward", *told("train.py:9", crossed=1.0)) for _ in range(3)]
