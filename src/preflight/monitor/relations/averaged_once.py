"""What is divided by the targets of all ranks is not averaged over the ranks as well."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.ranks import Wrapped
from preflight.monitor.views.tails import Tail
from preflight.monitor.views.targets import Counted, Counts, rows
from preflight.monitor.window import Call, Window

_CLOSE = 2e-3
_IN_A_ROW = 2
_SIZES = ((10, 30), (22, 8), (5, 16))
_LOSSES = ("NllLoss", "NllLoss2D")


class AveragedOnce(Relation):
    """A loss that is divided by the number of targets of all ranks is not averaged over the ranks once more.

    DistributedDataParallel divides the sum of the gradients by the number of ranks. A program that divides its loss by
    the targets of all ranks has to multiply it by the number of ranks; otherwise the gradients, and with some optimizers
    the steps, are too small by as much.
    That a program divides so is seen where the ranks hold different numbers of targets, each target counts the same on
    all of them, and all together count exactly 1. It is broken where this is so in two steps in a row.
    Not judged are losses that are one part of a sum, scaled losses, and wrappers with a communication hook.
    """

    name = "averaged-once"
    across = True
    needs = frozenset({"backward", "step", "zero_grad", "scalar"})
    whole = False
    severity = "warning"
    priority = 22
    cause = "the loss is divided by the targets of all ranks, and the wrapper averages the gradients over the ranks"
    advice = "multiply the loss by the number of ranks before the backward pass"

    def __init__(self) -> None:
        self._wrapped = Wrapped()
        self._counts: dict[int, Counts] = {}
        self._alone: dict[str, bool] = {}  # by place: whether its loss is no part of a sum
        self._other = False  # whether something else scales the gradients
        self._row = 0

    def see_ranks(self, windows: dict[int, Window]) -> Iterator[Example]:
        self._wrapped.see(windows)
        first = next(iter(windows.values()))
        self._other = self._other or any(first.named(name) for name in ("comm_hook", "scaler.scale", "wrap.fsdp2"))
        found = {rank: list(self._counts.setdefault(rank, Counts()).see(one)) for rank, one in windows.items()}
        if self._other or not all(found.values()):
            return
        for call in first.named("backward"):
            self._look(call)
        for group in self._wrapped.groups:
            if set(group) <= set(found):
                for steps in zip(*(found[rank] for rank in group), strict=False):
                    yield from self._judge(dict(zip(group, steps, strict=True)), first)

    def _look(self, call: Call) -> None:
        told = (call.args or {}).get("tail")
        if told and call.place:
            self._alone[call.place] = _alone(Tail(told))

    def _judge(self, steps: Mapping[int, tuple[Call, list[Counted]]], window: Window) -> Iterator[Example]:
        passes = [one for _, found in steps.values() for one in found]
        counts = [sum(one.targets for one in found) for _, found in steps.values()]
        weights = [one.each for one in passes]
        same = min(weights) > 0 and max(weights) - min(weights) <= _CLOSE * max(weights)
        if not same or max(counts) == min(counts) or len({one.place for one in passes}) > 1:
            return
        known = [self._alone.get(call.place or "") for call in window.named("backward")]
        if not known or not all(known):
            return
        total = sum(one.share for one in passes)
        once, twice = abs(total / len(steps) - 1) <= _CLOSE, abs(total - 1) <= _CLOSE
        self._row = self._row + 1 if twice else 0
        if not once and not twice:
            return
        wrong = self._row >= _IN_A_ROW
        yield Example(
            (),
            not wrong,
            {"ranks": sorted(steps)},
            variables=("loss", "DistributedDataParallel") if wrong else (),
            expected=f"targets that count {len(steps)} together, of which the wrapper makes 1",
            seen=f"targets of all {len(steps)} ranks that count {total:.4g} together before it averages"
            if wrong
            else None,
            call=steps[min(steps)][0],
            detail=f"The loss is divided by the {sum(counts):g} targets of all ranks, and averaged over the ranks again"
            if wrong
            else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _ranks(lambda total: 2 / total)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _ranks(lambda total: 1 / total)


def _alone(tail: Tail) -> bool:
    """Whether nothing is added to a loss over classes on its way."""
    above = {node.place for node in tail.nodes if node.name in _LOSSES}
    if len(above) != 1:
        return False
    grows = True
    while grows:
        found = {node.place for node in tail.nodes if above & set(node.below)} - above
        above |= found
        grows = bool(found)
    return not any(tail.nodes[place].name in ("Add", "Sub", "Stack", "Cat") for place in above)


def _ranks(each: Callable[[int], float], sizes: Sequence[tuple[int, ...]] = _SIZES) -> list[Window]:
    minis = [Mini({}, rank, 2) for rank in (0, 1)]
    tail: list[list[Any]] = [["Div", [], None, [1]], ["NllLoss", [], None, [2]], ["LogSoftmax", [8, 6], 1, [3]]]
    tail.append(["Addmm", [8, 6], None, []])
    windows = []
    for number, counts in enumerate(sizes):
        for mini, count in zip(minis, counts, strict=True):
            wrap: list[Any] = [] if number else [("wrap.ddp model", {"result": {"ranks": [0, 1]}})]
            backward = ("backward", {} if number else {"args": {"tail": tail}})
            told = rows("train.py:9#0", count, each(sum(counts)))
            windows.append(mini.window(*wrap, backward, *told, "step optimizer0:SGD", "zero_grad optimizer0:SGD"))
    return windows
