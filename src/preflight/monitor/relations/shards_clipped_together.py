"""Gradients of a model that lies in shards are clipped by the norm over all shards."""

from __future__ import annotations

from collections.abc import Iterator
from math import isclose, isfinite, sqrt
from typing import NamedTuple

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import ORDER, Call, Window

_STEPS = 2
"""Steps in a row in which all shards have one and the same norm that are no chance."""
_SAME = 1e-4
"""How far two norms may lie apart that are one limit, as a share of them: clipping adds a little to what it divides by."""


class ShardsClippedTogether(Relation):
    """Where each rank holds a shard of the gradients, no rank scales its shard to a limit by itself.

    The norm of a gradient that lies in shards is the root of the sum of the squares over all ranks. A norm that a
    program measures over the local tensors is the one of its shard: each rank divides by another number, the parts of one
    gradient no longer fit together, and the whole is longer than the limit.
    Judged are the gradients before a step of parameters that are distributed, on ranks with different shards of them. It
    is broken where the own shard has the same norm on all ranks, two steps in a row, and at both of them the same one,
    while those of single parameters are others: who takes the sign of a gradient, or scales each layer to one norm, has
    the same everywhere.
    """

    name = "shards-clipped-together"
    across = True
    needs = frozenset({"step", "state"})
    wakes = frozenset({"gradients of a step"})
    priority = 12
    cause = "each rank clips by the norm of the part of the gradients that it holds"
    advice = (
        "sum the squares over the ranks before the coefficient is computed, or clip the distributed tensors themselves"
    )

    def __init__(self) -> None:
        self._last: dict[int, _Shard] = {}  # by optimizer: what the first shard was at its last step, if all were alike
        self._times: dict[int, int] = {}

    def see_ranks(self, windows: dict[int, Window]) -> Iterator[Example]:
        told = {rank: _shards(window) for rank, window in windows.items()}
        first = next(iter(windows.values()))
        if len(told) < 2 or len({len(one) for one in told.values()}) != 1:
            return
        calls = sorted(first.named("step"), key=ORDER)
        for position, shards in enumerate(zip(*told.values(), strict=True)):
            if len({one.names for one in shards}) == 1 and len({one.ranks for one in shards}) > 1:
                yield self._judge(list(shards), calls[min(position, len(calls) - 1)] if calls else None)

    def _judge(self, shards: list[_Shard], call: Call | None) -> Example:
        one = shards[0]
        last = self._last.pop(one.optimizer, None)
        times = 0
        if all(isclose(other.norm, one.norm, rel_tol=_SAME) for other in shards):
            self._last[one.optimizer] = one
            times = self._times.get(one.optimizer, 0) + 1 if last is not None and _scaled(one, last) else 1
        self._times[one.optimizer] = times
        broken = times >= _STEPS
        return Example(
            (),
            not broken,
            {"ranks": len(shards)},
            variables=("gradients",) if broken else (),
            expected="shards of one gradient, whose squares add up to the limit",
            seen=f"a norm of {one.norm:.6g} on each of {len(shards)} ranks, step after step" if broken else None,
            call=call,
            detail="Each rank scales its shard of the gradients to the limit by itself" if broken else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _shared([(0.4, 0.0), (0.0, 0.4)], [(0.3, 0.0), (0.4, 0.3)])
        yield _shared([(0.4, 0.3), (0.3, 0.4)], [(0.1, 0.2), (0.3, 0.3)], [(0.3, 0.4), (0.4, 0.3)])
        yield _shared([(0.4, 0.3), (0.4, 0.3)], [(0.4, 0.3), (0.4, 0.3)])
        yield _shared([(0.4, 0.3), (0.4, 0.3)], [(0.3, 0.3), (0.3, 0.3)])

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _shared([(0.4, 0.3), (0.0, 0.5)], [(0.3, 0.4), (0.5, 0.0)])


class _Shard(NamedTuple):
    """What a rank holds of the gradients before a step: whose they are, which ranks hold the same, and their norms."""

    optimizer: int
    names: tuple[str, ...]
    ranks: tuple[int, ...]
    norms: tuple[float, ...]

    @property
    def norm(self) -> float:
        return sqrt(sum(value * value for value in self.norms))


def _scaled(one: _Shard, last: _Shard) -> bool:
    """Whether a shard has the norm of the last step as a whole, though its parameters have others."""
    if one.names != last.names or not isclose(one.norm, last.norm, rel_tol=_SAME):
        return False
    return any(not isclose(new, old, rel_tol=_SAME) for new, old in zip(one.norms, last.norms, strict=True))


def _shards(window: Window) -> list[_Shard]:
    """What is held before each step of an optimizer all of whose gradients lie in shards."""
    found = []
    for state in sorted(window.states, key=ORDER):
        if state.what != "gradient" or state.moment != "before_step" or None in state.norm:
            continue
        held = [window.run.variables[ident] for ident in state.ids]
        spread = [one.spread or {} for one in held]
        if held and all(one.get("kind") == "sharded" for one in spread):
            norms = tuple(value or 0.0 for value in state.norm)
            ranks = tuple(spread[0].get("ranks", ()))
            shard = _Shard(held[0].optimizer, tuple(one.name for one in held), ranks, norms)
            if shard.norm and isfinite(shard.norm):
                found.append(shard)
    return found


def _shared(*steps: list[tuple[float, float]]) -> list[Window]:
    """Steps of two ranks; each tells the norms of the shards of two parameters."""
    windows = []
    for rank in range(2):
        spread = {"kind": "sharded", "ranks": [rank], "placements": "(Shard(dim=0),)"}
        mini = Mini({"model.weight": {"spread": spread}, "model.bias": {"spread": spread}}, rank, 2)
        for step in steps:
            gradients = dict(zip(("model.weight", "model.bias"), step[rank], strict=True))
            windows.append(mini.window("backward", ("gradients", gradients), "step optimizer0:SGD"))
    return windows
