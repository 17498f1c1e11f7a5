"""Ranks divide the same data among themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Call, Window


class RanksDivideAlike(Relation):
    """A distributed sampler divides the same samples on every rank.

    It deals out positions, and trusts that a position means the same sample everywhere. Where each rank has split the
    data by itself, with a seed of its own, the ranks train on what others hold out, and nobody sees all of the data.
    Judged for parts by indices (``Subset``, ``random_split``) under a sampler for several replicas.
    """

    name = "ranks-divide-alike"
    category = "data"
    across = True
    needs = frozenset({"fetch", "batch"})
    whole = False
    priority = 7
    cause = "each rank splits or shuffles the data with a random state of its own"
    advice = "give random_split a generator with the same seed on every rank"

    def __init__(self) -> None:
        self._facts: dict[str, dict[int, Call]] = {}

    def see_ranks(self, windows: dict[int, Window]) -> Iterator[Example]:
        for rank, window in windows.items():
            for call in window.named("loader.new"):
                told = call.args or {}
                if (told.get("replicas") or (0, 1))[1] > 1 and "part" in told:
                    self._facts.setdefault(call.object, {})[rank] = call
        for name, calls in list(self._facts.items()):
            facts = {rank: call.args or {} for rank, call in calls.items()}
            if len(calls) < next(iter(facts.values()))["replicas"][1]:
                continue
            del self._facts[name]
            if len({one["of"] for one in facts.values()}) > 1:
                continue
            parts = {tuple(one["part"]) for one in facts.values()}
            wrong = len(parts) > 1
            common = len(set.intersection(*(set(part) for part in parts)))
            yield Example(
                (),
                not wrong,
                {"ranks": sorted(calls)},
                variables=(name,) if wrong else (),
                expected="the same part of the data on every rank",
                seen=f"{len(parts)} different parts, of which {common} of {len(min(parts, key=len))} samples are in all"
                if wrong
                else None,
                call=calls[min(calls)],
                detail=f"The ranks divide different parts of the data among themselves in {name}" if wrong else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _begun([1, 2, 3], [1, 2, 3])

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _begun([1, 2, 3], [2, 5, 6])


def _begun(*parts: list[int]) -> list[Window]:
    windows = []
    for rank, part in enumerate(parts):
        facts: dict[str, Any] = {"replicas": [rank, len(parts)], "part": part, "of": 8, "base": 0}
        mini = Mini({"model.weight": {}}, rank, len(parts))
        windows.append(mini.window(("loader.new loader0", {"args": facts}), "backward", "step optimizer0:SGD"))
    return windows
