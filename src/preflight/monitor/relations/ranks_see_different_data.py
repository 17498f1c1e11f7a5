"""Ranks that share the work see different samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.fetches import Fetch, Fetches, content, numel
from preflight.monitor.views.ranks import Wrapped, given
from preflight.monitor.window import Window
from preflight.vocabulary.counted import counted

_LEARNT = 3


class RanksSeeDifferentData(Relation):
    """Two ranks of a data-parallel program do not train on the same samples.

    Three things are judged.
    Distributed samplers of the same data give no sample to two ranks within an epoch, but for those that fill it up.
    Ranks that a wrapper makes replicas of each other get different batches from their loaders, unless what goes into
    the model is smaller than the batch, as where each rank takes its part of it.
    Ranks whose inputs differed for some iterations do not suddenly get the same.

    Ranks that share one batch by tensor or sequence parallelism are not replicas and are not compared.
    """

    name = "ranks-see-different-data"
    category = "data"
    across = True
    needs = frozenset({"fetch", "batch", "forward", "backward"})
    priority = 6
    cause = "the loader has no distributed sampler, its sampler has a seed of its own on each rank, or all ranks restored one rank's random state"
    advice = (
        "use DistributedSampler with the same seed on all ranks, and random states of their own where samples are drawn"
    )

    def __init__(self) -> None:
        self._wrapped = Wrapped()
        self._fetches: dict[int, Fetches] = {}
        self._owner: dict[tuple[str, Any], dict[int, int]] = {}
        self._shared: dict[tuple[str, Any], int] = {}
        self._apart: dict[tuple[int, int], int] = {}
        self._batch: dict[int, Any] = {}

    def see_ranks(self, windows: dict[int, Window]) -> Iterator[Example]:
        self._wrapped.see(windows)
        fetched = {
            rank: [one for one in self._fetches.setdefault(rank, Fetches()).see(window) if one.trained]
            for rank, window in windows.items()
        }
        found = [*self._samples(fetched), *self._batches(fetched, windows), *self._inputs(windows)]
        passes = next(iter(windows.values())).named("forward")
        for ranks, what, call in found:
            yield Example(
                (),
                not what,
                {"ranks": ranks},
                variables=(),
                expected="different samples on each rank",
                seen=what or None,
                call=call or (passes[0] if passes else None),
                detail=f"Ranks {', '.join(map(str, ranks))} train on the same samples" if what else "",
            )

    def _samples(self, fetched: Mapping[int, list[Fetch]]) -> Iterator[tuple[list[int], str, Any]]:
        """Indices that distributed samplers give to several ranks."""
        for rank, fetches in fetched.items():
            for fetch in fetches:
                replicas, batch = fetch.facts.get("replicas"), fetch.batch
                if "distributed" not in fetch.order or not replicas or replicas[1] < 2 or not batch.indices:
                    continue
                key = batch.loader, batch.epoch
                if batch.fetch == 0:
                    for old in [one for one in self._owner if one[0] == batch.loader and one[1] != batch.epoch]:
                        del self._owner[old]
                owner = self._owner.setdefault(key, {})
                again = [one for one in batch.indices if owner.setdefault(one, rank) != rank]
                self._shared[key] = self._shared.get(key, 0) + len(again)
                if self._shared[key] > replicas[1] and again:
                    ranks = sorted({rank, *(owner[one] for one in again)})
                    what = f"{counted(len(again), 'sample')} of a batch of {batch.loader} came to another rank in this epoch, too"
                    yield ranks, what, fetch.call
                else:
                    yield [rank], "", fetch.call

    def _batches(
        self, fetched: Mapping[int, list[Fetch]], windows: Mapping[int, Window]
    ) -> Iterator[tuple[list[int], str, Any]]:
        """Whole batches that replicas get alike."""
        for group in self._wrapped.groups:
            held: dict[Any, list[int]] = {}
            calls: dict[int, Any] = {}
            for rank in group:
                fetch = fetched[rank][-1] if fetched.get(rank) else None
                what = content(fetch.batch) if fetch is not None else None
                if fetch is None or what is None or _takes_a_part(fetch, windows[rank]):
                    continue
                if self._batch.get(rank, what) != what:  # a loader that gives the same at each step is another matter
                    held.setdefault(what, []).append(rank)
                    calls[rank] = fetch.call
                self._batch[rank] = what
            for ranks in held.values():
                same = len(ranks) > 1
                yield ranks, "the loaders of several ranks gave the same batch" if same else "", calls[ranks[0]]

    def _inputs(self, windows: Mapping[int, Window]) -> Iterator[tuple[list[int], str, Any]]:
        """Inputs of models that differed between ranks before and no longer do."""
        for group in self._wrapped.groups:
            told = {rank: given(windows[rank]) for rank in group if rank in windows}
            known = [rank for rank, one in told.items() if one is not None]
            for one, other in pairwise(known):
                count = self._apart.get((one, other), 0)
                if told[one] != told[other]:
                    self._apart[one, other] = count + 1
                    if count >= _LEARNT:
                        yield [one, other], "", None
                elif count >= _LEARNT:
                    yield [one, other], "the models of ranks whose inputs differed get the same inputs", None

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _sampled([0, 2], [1, 3])
        yield _drawn((1, 2), (3, 4), (5, 6), (7, 8), (9, 10))

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _sampled([0, 1, 2, 3], [0, 1, 2, 3])
        yield _drawn((1, 2), (3, 4), (5, 6), (7, 7))


def _takes_a_part(fetch: Fetch, window: Window) -> bool:
    """Whether the model gets less than the loader gave: each rank takes its part of a batch, or of its sequences."""
    sizes = [numel(shape) for shape in fetch.batch.shapes]
    inputs = [numel(shape) for batch in window.batches if batch.loader.startswith("forward:") for shape in batch.shapes]
    return not inputs or max(inputs) < max(sizes, default=0)


def _sampled(*indices: list[int]) -> list[Window]:
    windows = []
    for rank, held in enumerate(indices):
        facts = {"order": "distributed random", "replicas": [rank, 2], "batch_size": 4, "samples": 8}
        mini = Mini({}, rank, 2)
        windows.append(
            mini.window(
                ("loader.new loader0", {"args": facts}),
                ("fetch loader0", {"args": {"epoch": 0, "fetch": 0}}),
                ("batch", {"fetch": 0, "indices": held}),
                "backward",
            )
        )
    return windows


def _drawn(*inputs: tuple[int, int]) -> list[Window]:
    minis = [Mini({}, rank, 2) for rank in (0, 1)]
    windows = []
    for number, bits in enumerate(inputs):
        for rank, mini in enumerate(minis):
            wrap: list[Any] = [] if number else [("wrap.ddp model", {"result": {"ranks": [0, 1]}})]
            row = ("batch", {"loader": "forward:model", "bits": [bits[rank]], "shapes": [[4, 8]]})
            windows.append(mini.window(*wrap, row, "forward model", "backward"))
    return windows
