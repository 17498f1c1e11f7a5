"""The steps of an average of weights are not rounded away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window
from preflight.vocabulary.counted import counted

_MOVED = "average.moved"
_LOOKS = 4


class AveragesAreNotRoundedAway(Relation):
    """An average of weights that is kept in half precision moves where it lies a little apart from the trained weights.

    A number of bfloat16 has eight bits, one of float16 eleven: what is less than a five-hundredth of it, or a
    four-thousandth, is rounded away when it is added. An average that takes a hundredth or a thousandth of the way with each
    step moves in the few numbers that are next to nothing beside those that they follow, and otherwise keeps those of the start.
    Judged are networks in half precision that no optimizer steps, with weights of the names and shapes of trained ones, and
    with no copy in float32 beside them, from one of a few looks to those after it, where any number of them has moved. It is
    broken where of all that lie apart by a sixteenth to a sixth of themselves none has, at four looks in a row. A copy that
    is only seldom brought on is as it was in between, and one that takes larger steps, or draws how it rounds, moves.
    """

    name = "averages-are-not-rounded-away"
    category = "numerical"
    needs = frozenset({"step", "scalar", _MOVED})
    wakes = frozenset({f"scalar {_MOVED}"})
    severity = "warning"
    priority = 16
    cause = "the average was made of, or cast to, weights in half precision"
    advice = "keep the average in float32, and cast a copy of it where it is used"

    def __init__(self) -> None:
        self._rested: Counter[str] = Counter()

    def see(self, window: Window) -> Iterator[Example]:
        for number in window.numbers:
            if number.name != _MOVED or number.value is None:
                continue
            rested = self._rested[number.object] = 0 if number.value else self._rested[number.object] + 1
            wrong = rested >= _LOOKS
            yield Example(
                (),
                not wrong,
                {},
                variables=(number.object,) if wrong else (),
                expected="an average whose numbers move towards those that they follow" if wrong else None,
                seen=f"none that lies a sixteenth to a sixth apart has moved, {counted(rested, 'look')} in a row"
                if wrong
                else None,
                call=next(iter(window.named("step")), None),
                detail=f"{number.object} is an average in half precision: most of its steps are rounded away"
                if wrong
                else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(0.0, 0.0, 0.0, 0.02, 0.0, 0.0, 0.0)
        yield _run(1.0, 1.0, 1.0, 1.0)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(0.4, 0.0, 0.0, 0.0, 0.0)


def _run(*moved: float) -> list[Window]:
    mini = Mini({"net.weight": {}, "average.weight": {"optimizer": -1, "dtype": "bfloat16"}})
    return [mini.window("backward", ("scalar", _MOVED, "average", one), "step optimizer0:Adam") for one in moved]
