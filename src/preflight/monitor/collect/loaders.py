"""Data loaders: each batch with its identity, each worker with its seeds."""

from __future__ import annotations

import itertools
import sys
import weakref
from typing import Any

from .digests import Digests, few
from .entry import Entry, clock
from .looks import alike
from .naming import names_of
from .orders import Numbers, facts
from .patching import Patches
from .places import user_frame
from .recorder import Recorder
from .reordered import Reordered
from .repeated import Repeated
from .slices import NAME as WINDOWS
from .slices import Slices
from .snapshot import Sight
from .splits import Splits
from .staying import Staying
from .stored import Stored
from .workers import Seats, tell_of

_MOST_INDICES = 64
_COUNTED = ""  # the name of a fetch that is not told
_TOLD_LOOPS = 16  # workers of later loops are not told: each would leave a file
_MOST_NAMES = 4
_MOST_LABELS = 4096
_MOST_SINGLE = 1024  # batches of a loader whose labels are looked at outside of detailed iterations


class Loaders:
    """Watches the iterators of ``torch.utils.data.DataLoader`` and the start of their workers."""

    def __init__(
        self, recorder: Recorder, digests: Digests, sight: Sight, repeated: Repeated, reordered: Reordered
    ) -> None:
        self.recorder = recorder
        self.reordered = reordered
        self.repeated = repeated
        self.sight = sight
        self.digests = digests
        self._next = itertools.count()
        self._numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._epochs: dict[int, int] = {}
        self._began: dict[int, int] = {}  # by loader, how many backward passes there had been when it was last begun
        self._loops_begun = 0
        self._single_left: dict[str, int] = {}  # by loader whose batches all had one label: how many more are looked at
        self._asked: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()
        self._loops: weakref.WeakKeyDictionary[Any, list[int]] = weakref.WeakKeyDictionary()
        self._datasets = Numbers()
        self._stored = Stored(recorder)
        self._slices = Slices(recorder) if recorder.wants(WINDOWS) else None
        self._splits = Splits(recorder)
        self._staying = Staying()
        self._seats: weakref.WeakKeyDictionary[Any, Seats] = weakref.WeakKeyDictionary()
        self._seats_now: Seats | None = None
        self._missed: weakref.WeakSet[Any] = weakref.WeakSet()  # iterators of which not all was followed

    def install(self, patches: Patches) -> None:
        """Put the watching functions in place."""
        module = sys.modules.get("torch.utils.data.dataloader")
        if module is None:
            return
        self._splits.install(patches)
        base = module._BaseDataLoaderIter
        patches.around(module.DataLoader, "__iter__", self._looping, self._looped)
        patches.around(base, "__next__", self._before, self._after)
        patches.around(module._MultiProcessingDataLoaderIter, "__init__", self._employing, self._employed)
        if "_next_index" in vars(base):
            original = base._next_index
            asked = self._asked

            def _next_index(iterator: Any) -> Any:
                index = original(iterator)
                if self.recorder.away or iterator in self._missed:
                    return index
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

    def resume(self) -> None:
        """Go on after a pause: of loops that went on meanwhile it is known how far they came, and no more.

        Which samples a batch of theirs has is not told again: what was asked for and not fetched is not known.
        """
        self._asked.clear()
        for iterator, loop in list(self._loops.items()):
            self._missed.add(iterator)
            given = getattr(iterator, "_num_yielded", None)
            loop[2] = given if isinstance(given, int) else loop[2]

    def number(self, loader: Any) -> int:
        """The number of a loader, by the order in which they were used."""
        known = self._numbers.get(loader)
        if known is None:
            known = self._numbers[loader] = next(self._next)
            seen = {
                "index": known,
                **facts(loader, self._datasets),
                **self._splits.told(getattr(loader, "dataset", None)),
                "names": names_of(loader, sys._getframe(1))[:_MOST_NAMES],
            }
            self.recorder.event("loader.new", f"loader{known}", seen)
        return known

    def _looping(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        if self.recorder.role != "trainer":
            return None
        number = self.number(args[0])
        self._loops_begun += 1
        again = getattr(args[0], "_iterator", None)
        if again is not None:
            self._asked.pop(again, None)  # workers that stay: what was asked for and never fetched is dropped
        epoch = self._epochs[number] = self._epochs.get(number, -1) + 1
        self._began[number] = self.recorder.passes
        if self.sight.wanted:
            self.sight.began(number, epoch, args[0])
        told: dict[str, Any] = {}
        with self.recorder.work("staying"):
            told = self._staying.begins(args[0])
        entry = self.recorder.enter("loop", f"loader{number}", {"epoch": epoch, **told})
        entry.about = (number, epoch)
        with self.recorder.work("stored"):
            self._stored.begins(args[0], entry.object, epoch)
        return entry

    def _looped(self, entry: Entry | None, value: Any, error: BaseException | None) -> None:
        if entry is None:
            return
        self.recorder.leave(entry, None, error)
        if error is None:
            self._loops[value] = [*entry.about, 0]

    def _before(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        recorder = self.recorder
        loop = self._loops.get(args[0])
        if recorder.role != "trainer" or loop is None:
            self._asked.pop(args[0], None)
            return None
        if recorder.torch.is_grad_enabled():
            recorder.epoch_began = self._began.get(loop[0])
            self.sight.fetches(*loop)
            recorder.begins("fetch")
        elif recorder.repeats and not recorder.detail and self._only_counted(loop[0]):
            entry = Entry.__new__(Entry)
            entry.name, entry.about = _COUNTED, weakref.ref(args[0])
            return entry
        entry = recorder.enter("fetch", f"loader{loop[0]}", {"epoch": loop[1], "fetch": loop[2]})
        entry.about = weakref.ref(args[0])
        return entry

    def _after(self, entry: Entry | None, value: Any, error: BaseException | None) -> None:
        if entry is None:
            return
        if entry.name == _COUNTED:
            self._counted(entry.about(), error)
            return
        began = clock()
        self._given(entry, value, error)
        if not entry.context.startswith("grad"):
            self.repeated.was_told(clock() - began)

    def _given(self, entry: Entry, value: Any, error: BaseException | None) -> None:
        """A batch came, or the loop has ended."""
        recorder = self.recorder
        found = few(value, recorder.torch.Tensor) if error is None else []
        recorder.leave(entry, self._told(entry.object, found), error)
        iterator = entry.about()
        if error is not None or iterator is None:
            return
        loop = self._loops[iterator]
        seats = self._seats.get(iterator)
        if seats is not None and not seats.told_all:
            for seen in seats.news():
                recorder.event("worker", entry.object, {"epoch": loop[1], **seen}, place=entry.place)
        waiting = self._asked.get(iterator)
        indices = waiting.pop(0) if waiting and getattr(iterator, "_in_order", True) else None
        where = {
            "epoch": loop[1],
            "fetch": loop[2],
            "indices": [int(one) for one in indices[:_MOST_INDICES]] if indices else None,
        }
        loop[2] += 1
        self.digests.batch(entry.object, found, where)
        if recorder.detail and recorder.torch.is_grad_enabled():
            with recorder.work("reordered"):
                self.reordered.fetched(found)
        if self._slices is not None and recorder.detail and recorder.torch.is_grad_enabled():
            with recorder.work("slices"):
                self._slices.look(entry.object, found)

    def _only_counted(self, number: int) -> bool:
        """Whether so many batches without gradients were fetched at this place that this one is only counted."""
        frame = user_frame(sys._getframe(2))
        at = (frame.f_code, frame.f_lineno) if frame is not None else None
        return self.repeated.leaves_out(f"loader{number}", ("fetch", number, at))

    def _counted(self, iterator: Any, error: BaseException | None) -> None:
        """A batch came that is only counted, or the loop has ended, which is told."""
        loop = self._loops.get(iterator) if iterator is not None else None
        if loop is None:
            return
        if error is not None:
            entry = self.recorder.enter("fetch", f"loader{loop[0]}", {"epoch": loop[1], "fetch": loop[2]})
            self.recorder.leave(entry, None, error)
            return
        waiting = self._asked.get(iterator)
        if waiting:
            waiting.pop(0)
        loop[2] += 1

    def _told(self, loader: str, found: list[Any]) -> dict[str, Any] | None:
        """What is told of the tensors of a batch; of labels also where those of all batches before were the same ones."""
        detail = self.recorder.detail
        if not detail and not self._single_left.get(loader):
            return None
        single, rising = self._labels(found)
        left = self._single_left.get(loader, _MOST_SINGLE) - 1
        self._single_left[loader] = max(left, 0) if single or rising else 0
        same = alike(self.recorder.torch, found) if detail and self.recorder.wants("alike") else None
        told: dict[str, Any] = {"alike": same} if same is not None else {}
        told.update({"single": single} if single else {})
        told.update({"rising": rising} if rising else {})
        return told or None

    def _labels(self, found: list[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Which tensors of a batch are lists of labels that are all the same, and which lie class after class.

        Of the first is told which label that is; of the others the first and the last one.
        """
        kinds = (self.recorder.torch.int64, self.recorder.torch.int32)
        single, rising = {}, {}
        for position, tensor in enumerate(found):
            if tensor.dtype not in kinds or tensor.dim() != 1 or not 1 < tensor.numel() <= _MOST_LABELS:
                continue
            if tensor.device.type == "cpu":
                values = tensor.tolist()
                if values.count(values[0]) == len(values):
                    single[str(position)] = values[0]
                elif values[0] < values[-1] < values[0] + len(values) // 2 and class_after_class(values):
                    rising[str(position)] = [values[0], values[-1]]
        return single, rising

    # -- workers: what they draw from is told to this process through a page of memory that a fork shares

    def _employing(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        if self.recorder.role == "trainer" and len(args) > 1:
            self._seats_now = self._seats[args[0]] = Seats(args[1].num_workers)
        return None

    def _employed(self, entry: Entry | None, value: Any, error: BaseException | None) -> None:
        self._seats_now = None

    def _set_epoch(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        epoch = kwargs.get("epoch", args[1] if len(args) > 1 else None)
        return self.recorder.enter(
            "epoch", type(args[0]).__name__, {"epoch": epoch if isinstance(epoch, int) else None}
        )

    def _worker(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        """A worker process begins: it tells its seeds at its first sample, when the person's own seeding is done."""
        recorder = self.recorder
        recorder.becomes_worker()
        tell_of(recorder, self._seats_now, self._loops_begun <= _TOLD_LOOPS)
        return None


def class_after_class(values: list[int]) -> bool:
    """Whether labels lie in order, with none left out between the first and the last one."""
    return all(0 <= after - before <= 1 for before, after in itertools.pairwise(values))
