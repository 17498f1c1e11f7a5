"""Data loaders: each batch with its identity, each worker with its seeds."""

from __future__ import annotations

import os
import random
import sys
import time
import weakref
import zlib
from typing import Any

from .digests import Digests, few
from .patching import Patches
from .recorder import Entry, Recorder

_MOST_INDICES = 64
_TOLD_LOOPS = 16  # workers of later loops are not told: each would leave a file


class Loaders:
    """Watches the iterators of ``torch.utils.data.DataLoader`` and the start of their workers."""

    def __init__(self, recorder: Recorder, digests: Digests) -> None:
        self.recorder = recorder
        self.digests = digests
        self._numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._epochs: dict[int, int] = {}
        self._loops_begun = 0
        self._asked: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()
        self._loops: weakref.WeakKeyDictionary[Any, list[int]] = weakref.WeakKeyDictionary()

    def install(self, patches: Patches) -> None:
        """Put the watching functions in place."""
        module = sys.modules.get("torch.utils.data.dataloader")
        if module is None:
            return
        base = module._BaseDataLoaderIter
        patches.around(module.DataLoader, "__iter__", self._looping, self._looped)
        patches.around(base, "__next__", self._before, self._after)
        if "_next_index" in vars(base):
            original = base._next_index
            asked = self._asked

            def _next_index(iterator: Any) -> Any:
                index = original(iterator)
                if isinstance(index, list) and index and isinstance(index[0], int):
                    asked.setdefault(iterator, []).append(index)
                return index

            patches.replace(base, "_next_index", _next_index)
        worker = sys.modules.get("torch.utils.data._utils.worker")
        if worker is not None:
            patches.around(worker, "_worker_loop", self._worker)
            # The loader's module reaches the loop through the module of workers, so one place is enough.
        sampler = sys.modules.get("torch.utils.data.distributed")
        if sampler is not None:
            patches.around(sampler.DistributedSampler, "set_epoch", self._set_epoch)

    def number(self, loader: Any) -> int:
        """The number of a loader, by the order in which they were used."""
        known = self._numbers.get(loader)
        if known is None:
            known = self._numbers[loader] = len(self._numbers)
            sampler = getattr(loader, "sampler", None)
            seen = {
                "index": known,
                "batch_size": getattr(loader, "batch_size", None),
                "workers": getattr(loader, "num_workers", None),
                "sampler": type(sampler).__name__,
                "iterable": type(sampler).__name__ == "_InfiniteConstantSampler",
                "drop_last": getattr(loader, "drop_last", None),
                "length": _length(getattr(loader, "dataset", None)),
            }
            self.recorder.event("loader.new", f"loader{known}", seen)
        return known

    def _looping(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        if self.recorder.role != "trainer":
            return None
        number = self.number(args[0])
        self._loops_begun += 1
        epoch = self._epochs[number] = self._epochs.get(number, -1) + 1
        entry = self.recorder.enter("loop", f"loader{number}", {"epoch": epoch})
        entry.about = (number, epoch)
        return entry

    def _looped(self, entry: Entry | None, value: Any, error: BaseException | None) -> None:
        if entry is None:
            return
        self.recorder.leave(entry, None, type(error).__name__ if error else None)
        if error is None:
            self._loops[value] = [*entry.about, 0]

    def _before(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        recorder = self.recorder
        loop = self._loops.get(args[0])
        if recorder.role != "trainer" or loop is None:
            return None
        if recorder.torch.is_grad_enabled():
            recorder.begins("fetch")
        entry = recorder.enter("fetch", f"loader{loop[0]}", {"epoch": loop[1], "fetch": loop[2]})
        entry.about = weakref.ref(args[0])
        return entry

    def _after(self, entry: Entry | None, value: Any, error: BaseException | None) -> None:
        if entry is None:
            return
        recorder = self.recorder
        recorder.leave(entry, None, type(error).__name__ if error else None)
        iterator = entry.about()
        if error is not None or iterator is None:
            return
        loop = self._loops[iterator]
        waiting = self._asked.get(iterator)
        indices = waiting.pop(0) if waiting else None
        where = {
            "epoch": loop[1],
            "fetch": loop[2],
            "indices": [int(one) for one in indices[:_MOST_INDICES]] if indices else None,
        }
        loop[2] += 1
        self.digests.batch(entry.object, few(value, recorder.torch.Tensor), where)

    def _set_epoch(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        epoch = kwargs.get("epoch", args[1] if len(args) > 1 else None)
        return self.recorder.enter(
            "epoch", type(args[0]).__name__, {"epoch": epoch if isinstance(epoch, int) else None}
        )

    def _worker(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        """A worker process begins: it tells its seeds at its first sample, when the person's own seeding is done."""
        recorder = self.recorder
        recorder.role = "worker"
        if self._loops_begun > _TOLD_LOOPS:
            return None
        module = sys.modules["torch.utils.data._utils.fetch"]
        told: list[int] = []

        def tell() -> None:
            if told:
                return
            told.append(1)
            with recorder.work("worker"):
                info = sys.modules["torch.utils.data"].get_worker_info()
                recorder.put(
                    "seed", (recorder.number(), time.monotonic_ns(), info.id, str(os.getppid()), *_generators(), None)
                )

        for kind in (module._MapDatasetFetcher, module._IterableDatasetFetcher):
            kind.fetch = _telling(kind.fetch, tell)
        return None


def _telling(fetch: Any, tell: Any) -> Any:
    def told_fetch(self: Any, possibly_batched_index: Any) -> Any:
        tell()
        return fetch(self, possibly_batched_index)

    return told_fetch


def _generators() -> tuple[int | None, int | None, int | None]:
    """What identifies the state of torch's, NumPy's and Python's generators, none of them moved."""
    torch = sys.modules["torch"]
    numpy = sys.modules.get("numpy")
    own = (
        zlib.crc32(bytes(torch.random.get_rng_state().numpy().tobytes())) if numpy is not None else torch.initial_seed()
    )
    state = numpy.random.get_state() if numpy is not None else None
    arrays = zlib.crc32(state[1].tobytes() + str(state[2]).encode()) if state is not None else None
    return own, arrays, zlib.crc32(repr(random.getstate()).encode())


def _length(dataset: Any) -> int | None:
    if not hasattr(type(dataset), "__len__"):
        return None
    try:
        return len(dataset)
    except Exception:
        return None
