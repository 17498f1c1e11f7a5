"""Replicas draw different random numbers for different samples."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.fetches import numel
from preflight.monitor.views.ranks import EXCHANGING, SENDING, Wrapped, uses
from preflight.monitor.window import Batch, Window

_IN_A_ROW = 2
_LEAST = 8


class ReplicasDrawApart(Relation):
    """What goes into replicas together with their own samples is not drawn alike on all of them.

    Where every rank has the same seed, its data are its own but what it draws for them is not: all ranks get the same
    noise, the same times of a diffusion, the same masks, and the average over the ranks has less variety than it should.
    Judged are inputs with a number or more for each sample: where all ranks get the same ones, new at each step, and
    another input of the same pass differs between all of them.
    Ranks that are also grouped in another way, or send tensors to one another, may share their samples: they are left out.
    """

    name = "replicas-draw-apart"
    across = True
    needs = frozenset({"forward", "batch", "backward", "wrap.ddp", "wrap.fsdp2", "collective"})
    severity = "warning"
    priority = 27
    cause = "all ranks seed their generator alike, and the noise is drawn from it"
    advice = "add the rank to the seed after the model is made: torch.manual_seed(seed + rank)"

    def __init__(self) -> None:
        self._wrapped = Wrapped()
        self._last: dict[tuple[str, int], tuple[list[int], int | None]] = {}
        self._shared = False  # whether samples may be divided among the ranks
        self._count: dict[tuple[str, int], int] = {}

    def see_ranks(self, windows: dict[int, Window]) -> Iterator[Example]:
        self._wrapped.see(windows)
        self._shared = self._shared or uses(windows.values(), SENDING | EXCHANGING)
        for group in self._wrapped.groups:
            if self._shared or any(_crosses(group, window) for window in windows.values()):
                continue
            ranks = [rank for rank in group if rank in windows]
            if len(ranks) > 1:
                yield from self._judge({rank: _inputs(windows[rank]) for rank in ranks}, windows[ranks[0]])

    def _judge(self, told: dict[int, dict[str, Batch]], window: Window) -> Iterator[Example]:
        for name in set.intersection(*(set(one) for one in told.values())):
            rows = [one[name] for one in told.values()]
            if any(row.shapes != rows[0].shapes or len(row.bits) != len(row.shapes) for row in rows):
                continue
            same = []
            differs = False
            for position, shape in enumerate(rows[0].shapes):
                bits = [row.bits[position] for row in rows]
                if None in bits or not shape or numel(shape) < _LEAST or shape[0] != rows[0].shapes[0][0]:
                    continue
                key = name, position
                before = self._last.get(key)
                new = before is not None and before[0] == shape and before[1] != bits[0]
                self._last[key] = shape, bits[0]
                alike = len(set(bits)) == 1 and new
                self._count[key] = self._count.get(key, 0) + 1 if alike else 0
                differs = differs or len(set(bits)) == len(bits)
                if self._count[key] >= _IN_A_ROW:
                    same.append(position)
            wrong = tuple(f"{name[8:]} input {position}" for position in same) if differs else ()
            passes = window.named("forward")
            yield Example(
                (),
                not wrong,
                {"ranks": sorted(told)},
                variables=("manual_seed", *wrong) if wrong else (),
                expected="inputs that differ between ranks as their samples do",
                seen=f"the same {', '.join(wrong)} on ranks {', '.join(map(str, told))}" if wrong else None,
                call=passes[0] if passes else None,
                detail="Ranks with different samples draw the same random numbers" if wrong else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run([((1, 5), (2, 6)), ((3, 7), (4, 8)), ((5, 9), (6, 10)), ((7, 11), (8, 12))])
        yield _run([((1, 5), (2, 5)), ((3, 5), (4, 5)), ((5, 5), (6, 5)), ((7, 5), (8, 5))])
        yield _run([((1, 5), (2, 5)), ((3, 6), (4, 6)), ((5, 5), (6, 5)), ((7, 6), (8, 6))], lengths=(8, 9))

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run([((1, 5), (2, 5)), ((3, 7), (4, 7)), ((5, 9), (6, 9))])


def _inputs(window: Window) -> dict[str, Batch]:
    """The first row of each model's inputs in passes that train."""
    trained = {call.object for call in window.named("forward") if call.context.startswith("grad")}
    found: dict[str, Batch] = {}
    for batch in window.batches:
        if (
            batch.loader.startswith("forward:")
            and batch.loader[8:] in trained
            and len(batch.shapes) > 1
            and batch.shapes[0]
        ):
            found.setdefault(batch.loader, batch)
    return found


def _crosses(group: tuple[int, ...], window: Window) -> bool:
    """Whether some of these ranks are known to be in a smaller group with each other, as in a mesh of several dimensions."""
    held = set(group)
    return any(len(held & set(ranks)) > 1 and not held <= set(ranks) for ranks in window.run.groups.values())


def _run(steps: list[tuple[tuple[int, int], tuple[int, int]]], lengths: tuple[int, ...] = (8,)) -> list[Window]:
    """Two ranks, each with samples and noise; batches are as large as the lengths say in turn."""
    minis = [Mini({}, rank, 2) for rank in (0, 1)]
    windows = []
    for number, ranks in enumerate(steps):
        size = lengths[number % len(lengths)]
        for mini, (sample, noise) in zip(minis, ranks, strict=True):
            wrap = [] if number else [("wrap.ddp model", {"result": {"ranks": [0, 1]}})]
            row = {"loader": "forward:model", "bits": [sample, noise], "shapes": [[size, 4], [size, 1]]}
            windows.append(mini.window(*wrap, ("batch", row), "forward model", "backward"))
    return windows
