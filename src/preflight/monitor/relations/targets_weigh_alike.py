"""Targets of one step weigh the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.targets import Counted, Counts, Evenness, rows
from preflight.monitor.window import Call, Window

_SIZES = ((10, 30), (22, 8), (5, 16))


class TargetsWeighAlike(Relation):
    """With accumulation, a target counts the same in whichever micro-batch it lies.

    A loss that is the mean over the tokens of its micro-batch, divided by the number of micro-batches, gives a short one
    the weight of a long one: each of its tokens counts for more, and the step is not the one of the whole batch.
    It is broken where micro-batches have the same weight although their numbers of targets lie far apart in several steps
    of three in a row (nearly twofold in each of them, or further in two), and change from step to step.
    Targets that the loss ignores (``ignore_index``, a mask) are not counted; losses over classes are judged, each line
    by itself. A last batch that is smaller than the others is not told of.
    """

    name = "targets-weigh-alike"
    needs = frozenset({"backward", "step", "zero_grad", "scalar"})
    wakes = frozenset({"scalar targets.count"})
    whole = False
    severity = "warning"
    priority = 20
    cause = "the loss is averaged within each micro-batch, and these hold different numbers of tokens"
    advice = "add the losses up (reduction='sum') and divide by the number of targets of the whole step"

    def __init__(self) -> None:
        self._counts = Counts()
        self._even: dict[str, Evenness] = {}

    def see(self, window: Window) -> Iterator[Example]:
        for call, found in self._counts.see(window):
            places: dict[str, list[Counted]] = {}
            for one in found:
                places.setdefault(one.place, []).append(one)
            for place, passes in places.items():
                if len(passes) > 1:
                    yield from self._judge(place, passes, call)

    def _judge(self, place: str, passes: list[Counted], call: Call) -> Iterator[Example]:
        counts = tuple(one.targets for one in passes)
        wrong = self._even.setdefault(place, Evenness()).judge(counts, tuple(one.share for one in passes))
        if wrong is None:
            return
        words = ", ".join(f"{count:g}" for count in counts[:8]) + (" ..." if len(counts) > 8 else "")
        yield Example(
            (),
            not wrong,
            {},
            variables=("backward", "loss") if wrong else (),
            expected="micro-batches that weigh as much as they hold targets",
            seen=f"the same weight for {words} targets" if wrong else None,
            call=call,
            detail=f"Micro-batches of {words} targets count the same in one step" if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _steps(lambda count, total: 1 / total)
        yield _steps(lambda count, total: 0.5 / count, ((10, 12), (9, 13), (11, 14)))  # hardly unequal
        yield _steps(lambda count, total: 0.5 / count, ((16, 4), (16, 4), (16, 4)))  # of fixed sizes
        yield _steps(lambda count, total: 0.5 / count, ((16, 16), (16, 16), (16, 3)))  # the end of an epoch

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _steps(lambda count, total: 0.5 / count)


def _steps(each: Callable[[int, int], float], sizes: Sequence[tuple[int, ...]] = _SIZES) -> list[Window]:
    mini = Mini({"model.weight": {}})
    windows = []
    for counts in sizes:
        told: list[object] = []
        for count in counts:
            told += ["backward", *rows("train.py:9#0", count, each(count, sum(counts)))]
        windows.append(mini.window(*told, "step optimizer0:SGD", "zero_grad optimizer0:SGD"))
    return windows
