"""Ranks that were started together do not all do the same work."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.ranks import Silence, Wrapped, apart
from preflight.monitor.window import Window

_ENOUGH = 4
"""Steps that all ranks did alike, from the first on, that are too many for chance."""


class RanksShareWork(Relation):
    """Of several ranks that were launched together, not all train the same model on the same batches to the same result.

    A program that knows nothing of ranks, started by a launcher, runs as often as there are GPUs: each step costs as much as
    on all of them and trains on one batch.
    Broken where for four steps in a row from the first on the inputs and the weights of all ranks are the same to the last
    bit, and no wrapper was made and no tensor sent: what ranks share by tensor or sequence parallelism needs both.
    """

    name = "ranks-share-work"
    across = True
    needs = frozenset({"step", "state", "forward"})
    severity = "warning"
    priority = 45
    cause = (
        "a program without torch.distributed is started by torchrun or srun, or its loader has no distributed sampler"
    )
    advice = "start it once, or make it data-parallel: init_process_group, DistributedDataParallel, DistributedSampler"

    def __init__(self) -> None:
        self._wrapped = Wrapped()
        self._silence = Silence()
        self._over = False

    def see_ranks(self, windows: dict[int, Window]) -> Iterator[Example]:
        if self._over:
            return
        self._wrapped.see(windows)
        self._silence.see(windows)
        if not all(window.named("step") for window in windows.values()):
            return
        first = next(iter(windows.values()))
        differ = apart(windows)
        # Where they part once, or send a tensor, they know of each other, or are programs of their own.
        self._over = bool(
            differ or self._silence.apart or self._silence.sent or self._wrapped.groups or self._wrapped.alone
        )
        ranks = sorted(windows)
        wrong = not self._over and differ is False and self._silence.whole and self._silence.alike >= _ENOUGH
        yield Example(
            (),
            not wrong,
            {"ranks": ranks},
            expected="a part of the work for each rank",
            seen=f"the same inputs and weights on {len(ranks)} ranks, step by step" if wrong else None,
            call=first.named("step")[-1],
            detail=f"Ranks {', '.join(map(str, ranks))} all do the same work" if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _trained((1, 2), 10)
        yield _trained((1, 1), 10, sends=True)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _trained((1, 1), 10)


def _trained(inputs: tuple[int, int], steps: int, sends: bool = False) -> list[Window]:
    found = []
    for rank, number in enumerate(inputs):
        mini = Mini({"model.weight": {}, "model.bias": {}}, rank, 2)
        for step in range(steps):
            before, after = 100 * step, 100 * (step + 1)
            if step:
                before += number
            found.append(
                mini.window(
                    ("batch", {"loader": "forward:model", "bits": [10 * step + number], "shapes": [[4, 8]]}),
                    "forward model",
                    *([("collective.all_reduce", {"args": {"shape": [32], "group": 0}})] if sends else []),
                    "backward",
                    ("before", {"model.weight": (1.0, before), "model.bias": (1.0, before)}),
                    "step optimizer0:SGD",
                    ("after", {"model.weight": (1.0, after + number), "model.bias": (1.0, after + number)}),
                )
            )
    return found
