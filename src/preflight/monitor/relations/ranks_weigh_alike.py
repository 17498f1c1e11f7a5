"""Targets of one step weigh the same on all ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.ranks import Wrapped
from preflight.monitor.views.targets import Counted, Counts, Evenness, rows
from preflight.monitor.window import Call, Window

_SIZES = ((10, 30), (22, 8), (5, 16))


class RanksWeighAlike(Relation):
    """A target counts the same on whichever rank it lies.

    Ranks that train one model average their gradients. Where each divides its loss by its own number of targets, a rank
    with few of them has the weight of one with many, and the step is not the one of the whole batch.
    It is broken where ranks have the same weight although their numbers of targets lie far apart in several steps of
    three in a row (nearly twofold in each of them, or further in two).
    Judged of losses over classes, where a wrapper averages the gradients and no hook weighs them.
    """

    name = "ranks-weigh-alike"
    across = True
    needs = frozenset({"backward", "step", "zero_grad", "scalar"})
    whole = False
    severity = "warning"
    priority = 21
    cause = "each rank divides its loss by its own number of targets, and the gradients are averaged over the ranks"
    advice = "sum the number of targets over the ranks, divide by that, and multiply by the number of ranks"

    def __init__(self) -> None:
        self._wrapped = Wrapped()
        self._hooked = False
        self._counts: dict[int, Counts] = {}
        self._even: dict[tuple[int, ...], Evenness] = {}

    def see_ranks(self, windows: dict[int, Window]) -> Iterator[Example]:
        self._wrapped.see(windows)
        self._hooked = self._hooked or any(window.named("comm_hook") for window in windows.values())
        if self._hooked:
            return
        found = {rank: list(self._counts.setdefault(rank, Counts()).see(one)) for rank, one in windows.items()}
        told = {rank: one for rank, one in found.items() if one}
        if len(told) < 2:
            return
        for group in sorted(self._wrapped.groups):
            present = {rank: told[rank] for rank in group if rank in told}
            if len(present) < 2:
                continue
            for steps in zip(*present.values(), strict=False):
                yield from self._judge(group, dict(zip(present, steps, strict=True)))

    def _judge(self, group: tuple[int, ...], steps: Mapping[int, tuple[Call, list[Counted]]]) -> Iterator[Example]:
        counts = tuple(sum(one.targets for one in found) for _, found in steps.values())
        shares = tuple(sum(one.share for one in found) for _, found in steps.values())
        wrong = self._even.setdefault(group, Evenness(fixed=True)).judge(counts, shares)
        if wrong is None:
            return
        words = ", ".join(f"{count:g} on rank {rank}" for rank, count in list(zip(steps, counts, strict=True))[:8])
        yield Example(
            (),
            not wrong,
            {"ranks": sorted(steps)},
            variables=("backward", "loss") if wrong else (),
            expected="ranks that weigh as much as they hold targets",
            seen=f"the same weight for {words}" if wrong else None,
            call=steps[min(steps)][0],
            detail=f"Ranks that hold different numbers of targets count the same: {words}" if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _ranks(lambda count, total: 2 / total)
        yield _ranks(lambda count, total: 1 / count, ((40, 44), (36, 41), (45, 43)))  # hardly unequal

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _ranks(lambda count, total: 1 / count)
        yield _ranks(lambda count, total: 1 / count, ((48, 16), (48, 16)))  # loaders of different sizes


def _ranks(each: Callable[[int, int], float], sizes: Sequence[tuple[int, ...]] = _SIZES) -> list[Window]:
    minis = [Mini({}, rank, 2) for rank in (0, 1)]
    windows = []
    for number, counts in enumerate(sizes):
        for mini, count in zip(minis, counts, strict=True):
            wrap: list[Any] = [] if number else [("wrap.ddp model", {"result": {"ranks": [0, 1]}})]
            told = rows("train.py:9#0", count, each(count, sum(counts)))
            windows.append(mini.window(*wrap, "backward", *told, "step optimizer0:SGD", "zero_grad optimizer0:SGD"))
    return windows
