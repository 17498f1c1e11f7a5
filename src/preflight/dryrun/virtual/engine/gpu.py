"""The virtual GPU: operators on its tensors give fake tensors, and every byte is accounted for.

Tensors on the CPU stay real, so samplers, tokenizers and schedules are exact. What lies on the GPU has a shape, a type
and a place in the memory, and no numbers.
"""

from __future__ import annotations

import functools
import threading
from collections import Counter
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from preflight.dryrun.virtual import private, private_guard
from preflight.dryrun.virtual.distributed import collectives
from preflight.dryrun.virtual.distributed.traffic import Traffic
from preflight.dryrun.virtual.engine import values
from preflight.dryrun.virtual.engine.hollow import Hollow
from preflight.dryrun.virtual.engine.known import SHAPED, UNKNOWN, Known
from preflight.dryrun.virtual.engine.operators import SPECIAL, on_host
from preflight.dryrun.virtual.engine.work import Work
from preflight.dryrun.virtual.memory import compiled
from preflight.dryrun.virtual.memory.ledger import PARAMETER, Ledger
from preflight.dryrun.virtual.progress import Progress
from preflight.dryrun.virtual.watch.observations import Observations
from preflight.dryrun.virtual.watch.operators import Operators

Fake = private.fake_class()
_thread = threading.local()


def inside() -> bool:
    """Whether this thread runs inside an operator, where a tensor must say its true device."""
    return getattr(_thread, "depth", 0) > 0


@functools.cache
def name_of(func: Any) -> str:
    """Return an operator's name without namespace and overload."""
    return str(func._schema.name.rpartition("::")[2])


def _wraps(types: Any) -> bool:
    return any(kind is not Fake and not issubclass(kind, Fake) and kind not in _PLAIN for kind in types)


_PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))


class VirtualGpu(TorchDispatchMode):
    """The mode in which a script runs.

    Args:
        ledger: Takes every allocation.
        progress: Where the run is.
        devices: Number of GPUs that this process sees.
    """

    def __init__(self, ledger: Ledger, progress: Progress, devices: int = 1) -> None:
        super().__init__()
        self.ledger, self.progress = ledger, progress
        self.fake = private.fake_mode()
        self.device = torch.device(private.BACKEND, 0)
        self.devices = devices
        self.index = 0  # the number by which the script's process calls the one GPU that it uses
        self.rank = 0
        self.operators = 0
        self.work = Work(progress)
        self.traffic = Traffic(progress)
        self.seen = Observations(progress)
        self.watched = Operators(self.seen)
        self.hollow, self.known = Hollow(), Known()
        self.imagined = 0  # above 0, tensors are made only to learn of their shapes
        self.syncs: Counter[tuple[str, str, str, int]] = Counter()
        self._supposed: dict[str, tuple[int, int]] = {}
        self.lines: Counter[tuple[str, int]] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operator."""
        kwargs = kwargs or {}
        if func is torch.ops.prim.device.default:
            return private_guard.asked(args[0], func)
        if _wraps(types):
            return NotImplemented  # DTensor and the like are taken apart first
        if func.namespace == "c10d":
            return collectives.run(self, name_of(func), func, args)
        device = kwargs.get("device")
        if private_guard.means_gpu(device):
            device = self.device
            kwargs = {**kwargs, "device": device}
            kwargs.pop("pin_memory", None)
        virtual = device is not None and device.type == private.BACKEND
        fakes = [leaf for leaf in private.leaves(args, kwargs) if isinstance(leaf, Fake)]
        if fakes and fakes[0].fake_mode is not self.fake:
            return func(*args, **kwargs)  # PyTorch's own thoughts about shapes (DTensor): no memory stands behind them
        if (virtual or fakes) and torch.is_inference_mode_enabled() and name_of(func) not in SPECIAL:
            # Composite operators arrive whole, as no autograd key takes them apart.
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        if not virtual and not fakes:
            kwargs.pop("pin_memory", None)
            return self.hollow.run(name_of(func), func, args, kwargs)
        if self.progress.stopping:
            self.progress.stop()
        _thread.depth = getattr(_thread, "depth", 0) + 1
        try:
            return self._run(func, args, kwargs, fakes)
        finally:
            _thread.depth -= 1

    def imagine(self, more: int) -> None:
        """Begin (1) or end (-1) a stretch in which tensors take no memory."""
        self.imagined += more

    def _run(self, func: Any, args: Any, kwargs: Any, fakes: list[Any]) -> Any:
        if self.imagined:
            return self._imagine(func, args, kwargs)
        self.operators += 1
        name = name_of(func)
        if torch.is_grad_enabled() and self.progress.phase != "backward":
            self.lines[(self.progress.note_origin(), self.progress.step)] += 1
        result, real = NotImplemented, UNKNOWN
        if name in SHAPED and not func._schema.is_mutable:
            real = self.known.run(func, args, kwargs)
            if real is not UNKNOWN:
                self.synchronise("item" if name == "_local_scalar_dense" else "size depends on numbers", 8)
                result = private.map_tensors(torch.Tensor, self._placed, real)
        special = SPECIAL.get(name) if result is NotImplemented else None
        if special is not None:
            result = special(self, func, args, kwargs)
        if result is NotImplemented:
            result = self._shapes(func, args, kwargs)
        made_of = self._read(func, name, fakes) if self.progress.compiled else None
        self.note(name, args, result, made_of)
        if real is UNKNOWN:
            self.known.follow(name, func, args, kwargs, fakes, result)
        else:
            self.known.take(result, real, fakes)
        if func.namespace in collectives.FUNCTIONAL:
            collectives.functional(self, name, args, result)
        else:
            self.work.see(name, func, args, kwargs, result, made_of is not None)
        if self.progress.pending and name.endswith("_"):
            self._changed(args)
        self.watched.ran(name, args, kwargs, result)
        return result

    def _imagine(self, func: Any, args: Any, kwargs: Any) -> Any:
        if name_of(func) == "_to_copy" and args and not isinstance(args[0], Fake):
            with self.fake:  # a small real tensor would be kept as a constant, which is then moved for real
                dtype = kwargs.get("dtype") or args[0].dtype
                return torch.empty_strided(args[0].size(), dense(args[0]), dtype=dtype, device=kwargs.get("device"))
        with self.fake:
            return func(*args, **kwargs)

    def _shapes(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return what an operator gives, by PyTorch's rules for shapes, or by a run on the host where it has none."""
        try:
            with self.fake:
                return func(*args, **kwargs)
        except private.no_shape_errors() as error:
            return on_host(self, func, args, kwargs, error)

    def _placed(self, real: Any) -> Any:
        with self.fake:
            return torch.empty_strided(real.size(), real.stride(), dtype=real.dtype, device=self.device)

    def _changed(self, args: Any) -> None:
        """Tell of parameters that a script changes by hand."""
        self.changed(args[0][0] if isinstance(args[0], (list, tuple)) and args[0] else args[0])

    def changed(self, first: Any) -> None:
        """A tensor has been written to after a backward pass: where it is a parameter, that may be a step."""
        if isinstance(first, Fake) and private.has_storage(first):
            holding = self.ledger.live.get(first.untyped_storage()._cdata)
            if holding is not None and holding.category == PARAMETER:
                self.progress.change_parameter()

    def _read(self, func: Any, name: str, fakes: list[Any]) -> list[int] | None:
        """Note what an operator reads; return it where the operator is a part of a compiled kernel."""
        inside, held = self.progress.in_compiled, self.ledger.compiled
        keys = [fake.untyped_storage()._cdata for fake in fakes if private.has_storage(fake)]
        if inside and compiled.fused(func, name):
            return keys
        if inside:
            held.read(keys, self.ledger.allocated)
        else:
            for key in keys:
                held.write(key)  # it left the region
        return None

    def note(self, name: str, args: Any, result: Any, made_of: list[int] | None = None) -> None:
        """Account for what an operator gave; ``made_of`` as ``Ledger.see`` has it."""
        for tensor in result if isinstance(result, (list, tuple)) else (result,):
            if isinstance(tensor, Fake) and tensor.fake_device.type == private.BACKEND and private.has_storage(tensor):
                storage = tensor.untyped_storage()
                self.ledger.see(storage, storage.nbytes(), name, made_of)
                values.remember(tensor, values.follow(name, args, tensor), name.endswith("_"))

    def empty_like(self, tensor: Any, dtype: Any = None) -> Any:
        """Return a fake tensor on the GPU with the shape of a tensor, and with its strides where these leave no gaps."""
        with self.fake:
            meta = torch.empty_strided(tensor.size(), dense(tensor), dtype=dtype or tensor.dtype, device=self.device)
        storage = meta.untyped_storage()
        self.ledger.see(storage, storage.nbytes(), "to")
        return meta

    def synchronise(self, kind: str, size: int) -> None:
        """Note that the host waits for the GPU here."""
        phase, step, _, line = self.progress.where()
        self.syncs[(kind, line, phase, step)] += 1
        self.work.waits = True
        self.seen.note("wait", kind=kind, direct=self.progress.direct())
        if size:
            self.seen.note("device to host", kind=kind, bytes=size)

    def suppose(self, chosen: int, among: int) -> None:
        """Note a size that hangs on numbers which nobody has: so many elements are taken to be chosen among so many."""
        line = self.progress.where()[3]
        known = self._supposed.get(line, (0, 0))
        self._supposed[line] = (known[0] + chosen, known[1] + among)

    def supposed(self) -> list[str]:
        """Return what was supposed of sizes, for the report: the first places, and how many others."""
        places = [(line, chosen / among) for line, (chosen, among) in self._supposed.items() if among]
        told = [
            f"{share:.0%} of the elements are chosen at {line}, which hangs on numbers" for line, share in places[:3]
        ]
        return told + ([f"the like at {len(places) - 3} other places"] if len(places) > 3 else [])

    def communicated(self, name: str, size: int, ranks: int, group: Any = None) -> None:
        """Note a collective of so many bytes among so many ranks, of a process group or of all."""
        self.traffic.note(name, size, group)
        self.work.collective(name, size, ranks)


def dense(tensor: Any) -> tuple[int, ...]:
    """Return the strides that a copy of a tensor has: its own order of dimensions, without gaps and without repeats."""
    return tuple((tensor if tensor.is_contiguous() else torch.empty_like(tensor, device="meta")).stride())
