"""What a forward pass keeps, and the backward pass played over it: bytes of activations and gradients at every operation."""

from __future__ import annotations

from collections import Counter

import msgspec

from preflight.cost.networks.operation import Op, Tensor
from preflight.cost.networks.tape import Tape


class Point(msgspec.Struct, frozen=True):
    """A moment of the backward pass: bytes of one sample that are alive, and the share of the gradients that is there."""

    bytes: float
    gradients: float


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of one sample.

    Attributes:
        saved: What lies there when the forward pass is over.
        points: The moments of the backward pass at one of which its peak lies, whatever gradients weigh.
        inference: The peak of a forward pass that keeps nothing.
    """

    saved: float
    points: tuple[Point, ...]
    inference: float


class _Buffer(msgspec.Struct):
    """The memory of a gradient, which several tensors may share."""

    size: float
    users: int


class _Rewind:
    """The backward pass as it goes."""

    def __init__(self, tape: Tape, recompute: bool) -> None:
        self.tape, self.recompute = tape, recompute
        self.kept: Counter[int] = Counter()
        self.inner: dict[int, list[int]] = {}
        self.entries: dict[int, set[int]] = {}
        self._keep()
        self.live = sum(tape.sizes[storage] for storage in self.kept)
        self.saved = self.live
        self.gradients: dict[int, _Buffer] = {}
        self.done = 0.0
        self.points: list[tuple[float, float]] = []

    def _keep(self) -> None:
        """Hold what operations keep; of a block that is recomputed, what comes in from outside."""
        born: dict[int, int] = {}
        for op in self.tape.ops:
            born[op.output.storage] = op.block
        for op in self.tape.ops:
            if not self.recompute or op.block < 0:
                self.kept.update(op.saved)
                continue
            entries = self.entries.setdefault(op.block, set())
            outside = {s for s in (*op.used, *op.saved) if s in born and born[s] != op.block}
            entries |= outside
            self.inner.setdefault(op.block, []).extend(s for s in op.saved if s not in outside)
        for entries in self.entries.values():
            self.kept.update(entries)

    def _drop(self, storage: int) -> None:
        self.kept[storage] -= 1
        if not self.kept[storage]:
            self.live -= self.tape.sizes[storage]

    def _enter(self, block: int) -> None:
        """Compute a block again: what its operations keep is there until they have run backward."""
        for storage in self.inner[block]:
            if not self.kept[storage]:
                self.live += self.tape.sizes[storage]
            self.kept[storage] += 1

    def run(self) -> None:
        """Go from the last operation to the first."""
        last = self.tape.ops[-1].output
        self.gradients[last.key] = _Buffer(last.size, 1)
        self.live += last.size
        now = -1
        for op in reversed(self.tape.ops):
            if self.recompute and op.block != now:
                self._leave(now)
                if op.block >= 0:
                    self._enter(op.block)
                now = op.block
            self._step(op)
        self._leave(now)

    def _leave(self, block: int) -> None:
        for storage in self.entries.get(block, ()):
            self._drop(storage)

    def _step(self, op: Op) -> None:
        buffer = self.gradients.pop(op.output.key, None)
        if buffer is not None:
            spare = sum(self._give(part, buffer if op.passes else None) for part in op.inputs)
            self.done += op.weights
            self.points.append((self.live + op.temporary, self.done))
            self.live -= spare
            self._release(buffer)
        if not self.recompute or op.block < 0 or op.block in self.inner:
            entries = self.entries.get(op.block, ()) if self.recompute and op.block >= 0 else ()
            for storage in op.saved:
                if storage not in entries:
                    self._drop(storage)

    def _give(self, part: Tensor, passed: _Buffer | None) -> float:
        """Give a tensor its gradient, or add to the one it has; return what was allocated only for the sum."""
        if part.storage < 0:
            return 0.0
        has = self.gradients.get(part.key)
        shared = passed is not None and passed.size >= part.size
        if has is None:
            if shared and passed is not None:
                passed.users += 1
                self.gradients[part.key] = passed
            else:
                self.gradients[part.key] = _Buffer(part.size, 1)
                self.live += part.size
            return 0.0
        spare = 0.0 if shared else part.size
        self.live += spare
        if has.users > 1:  # the sum needs memory of its own
            has.users -= 1
            self.gradients[part.key] = _Buffer(part.size, 1)
            self.live += part.size
        return spare

    def _release(self, buffer: _Buffer) -> None:
        buffer.users -= 1
        if not buffer.users:
            self.live -= buffer.size


def rewind(tape: Tape, recompute: bool) -> Kept:
    """Play the backward pass of a tape, with the tape's blocks computed again or not."""
    played = _Rewind(tape, recompute)
    played.run()
    whole = played.done or 1.0
    points = [Point(size, weights / whole) for size, weights in _hull(played.points)]
    return Kept(saved=played.saved, points=tuple(points), inference=_inference(tape))


def _hull(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points at which a weighted sum of both numbers can be largest: the upper hull over the gradients."""
    best: dict[float, float] = {}
    for size, weights in points:
        best[weights] = max(best.get(weights, 0.0), size)
    hull: list[tuple[float, float]] = []
    for weights in sorted(best):
        size = best[weights]
        while len(hull) > 1 and _below(hull[-2], hull[-1], (size, weights)):
            hull.pop()
        hull.append((size, weights))
    return hull


def _below(first: tuple[float, float], middle: tuple[float, float], last: tuple[float, float]) -> bool:
    """Return whether the middle point lies on or below the line between the others."""
    rise = (last[0] - first[0]) * (middle[1] - first[1])
    return (middle[0] - first[0]) * (last[1] - first[1]) <= rise


def _inference(tape: Tape) -> float:
    """Return the peak of a forward pass in which each tensor lives from its operation to its last use."""
    last: dict[int, int] = {}
    for index, op in enumerate(tape.ops):
        for storage in op.used:
            last[storage] = index
    ends: dict[int, list[int]] = {}
    for storage, index in last.items():
        ends.setdefault(index, []).append(storage)
    live = peak = 0.0
    there: set[int] = set()
    for index, op in enumerate(tape.ops):
        if op.output.storage not in there:
            there.add(op.output.storage)
            live += tape.sizes[op.output.storage]
        peak = max(peak, live)
        for storage in ends.get(index, ()):
            if storage in there:
                live -= tape.sizes[storage]
    return peak
