"""What the workers of a loader draw their random numbers from, and whether they draw at all.

A worker tells it in its own file, and to the process that trains through a page of memory that a fork shares.
"""

from __future__ import annotations

import mmap
import os
import random
import struct
import sys
import time
import zlib
from collections.abc import Iterator
from typing import Any

from .recorder import Recorder

_SEAT = struct.Struct("<BBIIII")
_SIZE = 32
_SOURCES = ("torch", "numpy", "python", "own")
_MOST_OWN = 64
_DEEPEST, _MOST_MEMBERS, _MOST_HOLDERS = 4, 32, 128
"""How far generators are looked for in what a dataset holds, in how long lists, and in how many things in all."""
_PLAIN = frozenset(
    {"builtins", "types", "numpy", "random", "pandas", "pyarrow", "PIL", "functools", "threading", "logging"}
)


class Seats:
    """A place for each worker of one iterator, in memory that its forked workers share.

    Attributes:
        told_all: Whether every worker has been read.
    """

    def __init__(self, workers: int) -> None:
        self._memory = mmap.mmap(-1, _SIZE * workers)
        self._waiting = set(range(workers))
        self.told_all = not workers

    def write(self, worker: int, states: tuple[int, ...], moved: int) -> None:
        """Called in the worker: what its first samples were drawn from, and which generators they moved."""
        place = worker * _SIZE
        self._memory[place + 1 : place + _SEAT.size] = _SEAT.pack(1, moved, *states)[1:]
        self._memory[place] = 1

    def news(self) -> Iterator[dict[str, Any]]:
        """Called by the trainer: the workers that have written since the last time."""
        for worker in sorted(self._waiting):
            ready, moved, *states = _SEAT.unpack_from(self._memory, worker * _SIZE)
            if ready:
                self._waiting.discard(worker)
                used = [word for bit, word in enumerate(_SOURCES) if moved & 1 << bit]
                yield {"worker": worker, **dict(zip(_SOURCES, states, strict=True)), "used": used}
        self.told_all = not self._waiting


def tell_of(recorder: Recorder, seats: Seats | None, file: bool) -> None:
    """Called as a worker begins: it tells its generators around its first sample, when the person's seeding is done.

    Args:
        recorder: The worker's recorder.
        seats: Where to tell the trainer, if it is there.
        file: Whether to leave a file of its own.
    """
    module = sys.modules["torch.utils.data._utils.fetch"]
    told: list[int] = []

    def telling(fetch: Any) -> Any:
        def told_fetch(self: Any, possibly_batched_index: Any) -> Any:
            if told:
                return fetch(self, possibly_batched_index)
            told.append(1)
            own: list[Any] = []
            before: list[int] = []
            with recorder.work("worker"):
                own.extend(_generators_near(self.dataset))
                before.extend(_states(own))
                if file:
                    _row(recorder, before)
            value = fetch(self, possibly_batched_index)
            with recorder.work("worker"):
                if seats is not None and before:
                    _seat(seats, before, _states(own))
            return value

        return told_fetch

    for kind in (module._MapDatasetFetcher, module._IterableDatasetFetcher):
        kind.fetch = telling(kind.fetch)


def _row(recorder: Recorder, states: list[int]) -> None:
    worker = sys.modules["torch.utils.data"].get_worker_info().id
    row = (recorder.number(), time.monotonic_ns(), worker, str(os.getppid()), *states[:3], None)
    recorder.put("seed", row)


def _seat(seats: Seats, before: list[int], after: list[int]) -> None:
    """Write what a worker drew its first samples from, and which generators these moved; of its own only those that moved.

    Where a generator stood afterwards belongs to it: one that is seeded as the first sample is asked for stood as all
    others did until then, and what is drawn from it is the worker's own.
    """
    moved = [old != new for old, new in zip(before, after, strict=True)]
    drawn = [
        zlib.crc32(repr((old, new)).encode()) if was else old
        for old, new, was in zip(before, after, moved, strict=True)
    ]
    own = [one for one, was in zip(drawn[3:], moved[3:], strict=True) if was]
    together = zlib.crc32(repr(own).encode()) if own else 0
    worker = sys.modules["torch.utils.data"].get_worker_info().id
    used = sum(1 << bit for bit in range(3) if moved[bit])
    seats.write(worker, (*drawn[:3], together), used | (8 if own else 0))


def _states(own: list[Any]) -> list[int]:
    """What identifies the state of torch's, NumPy's and Python's generators and of some more, none of them moved."""
    numpy = sys.modules.get("numpy")
    return [
        _state_of(sys.modules["torch"].default_generator),
        _state_of(numpy.random.mtrand._rand) if numpy is not None else 0,
        zlib.crc32(repr(random.getstate()).encode()),
        *(_state_of(one) for one in own),
    ]


def _state_of(generator: Any) -> int:
    if isinstance(generator, random.Random):
        return zlib.crc32(repr(generator.getstate()).encode())
    torch = sys.modules["torch"]
    if isinstance(generator, torch.Generator):
        return zlib.crc32(bytes(generator.get_state().tolist()))
    held = getattr(generator, "bit_generator", None)
    if held is not None:
        return zlib.crc32(repr(held.state).encode())
    kind, keys, *rest = generator.get_state()
    return zlib.crc32(repr(rest).encode(), zlib.crc32(keys.tobytes(), zlib.crc32(str(kind).encode())))


def _generators_near(dataset: Any) -> Iterator[Any]:
    """Generators that a dataset holds, one of those it wraps, what these hold, or the module in which they are written."""
    numpy, torch = sys.modules.get("numpy"), sys.modules["torch"]
    kinds: tuple[type, ...] = (random.Random, torch.Generator)
    if numpy is not None:
        kinds += (numpy.random.Generator, numpy.random.RandomState)
    seen: set[int] = {id(torch.default_generator)}
    for _ in range(4):
        module = sys.modules.get(type(dataset).__module__)
        ours = getattr(module, "__name__", "").partition(".")[0] in ("torch", "builtins")
        for values in (_held_by(dataset), () if module is None or ours else list(vars(module).values())):
            for value in values:
                if isinstance(value, kinds) and id(value) not in seen and len(seen) < _MOST_OWN:
                    seen.add(id(value))
                    yield value
        dataset = getattr(dataset, "dataset", None)
        if dataset is None:
            return


def _held_by(dataset: Any) -> Iterator[Any]:
    """What a dataset holds, and what that holds in turn: a list of transforms, or one that is made of others."""
    level, looked_at = [dataset], {id(dataset)}
    for depth in range(_DEEPEST):
        below: list[Any] = []
        for holder in level:
            for value in _members(holder) if depth else _attributes(holder):
                yield value
                if id(value) not in looked_at and len(looked_at) < _MOST_HOLDERS and _holds_others(value):
                    looked_at.add(id(value))
                    below.append(value)
        level = below


def _members(holder: Any) -> list[Any]:
    if isinstance(holder, dict):
        return list(holder.values())
    return list(holder) if isinstance(holder, (list, tuple)) else _attributes(holder)


def _attributes(holder: Any) -> list[Any]:
    return list(getattr(holder, "__dict__", {}).values())


def _holds_others(value: Any) -> bool:
    """Whether a value may hold generators: a short list of other things, or an object that is no data and no code."""
    if isinstance(value, (list, tuple, dict)):
        return len(value) <= _MOST_MEMBERS
    kind = type(value)
    return (
        kind.__module__.partition(".")[0] not in _PLAIN and hasattr(value, "__dict__") and not isinstance(value, type)
    )
