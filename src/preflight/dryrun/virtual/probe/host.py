"""What stands where the virtual GPU stands in a dry run: a GPU by name, whose tensors are real and lie on the CPU."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from preflight.dryrun.virtual.engine.work import Work
from preflight.dryrun.virtual.memory.allocator import CachingAllocator
from preflight.dryrun.virtual.memory.ledger import Ledger
from preflight.dryrun.virtual.progress import Progress
from preflight.dryrun.virtual.replacing import replace_everywhere

_HALVES = frozenset(("half", "bfloat16"))
_MAKES = frozenset(("cuda", "to"))


class Host:
    """Answers what loops, loaders and ``torch.cuda`` ask of the GPU; nothing is counted.

    Args:
        progress: Where the run is.
    """

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.devices, self.index = 1, 0
        self.operators = 0
        # Nothing is ever put there.
        self.ledger, self.work = Ledger(CachingAllocator(None), progress.where), Work(progress)

    def synchronise(self, kind: str, size: int) -> None:
        """Nothing is waited for."""


def on_host(value: Any) -> Any:
    """Return the CPU for what names a GPU, anything else as it is."""
    if isinstance(value, torch.device):
        return torch.device("cpu") if value.type == "cuda" else value
    if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
        return "cpu"
    return value


def full(value: Any) -> Any:
    """Return fp32 for a half precision, anything else as it is: a CPU is slow at them, and fp32 is what shows most."""
    return torch.float32 if isinstance(value, torch.dtype) and value in (torch.float16, torch.bfloat16) else value


class Mode(TorchFunctionMode):
    """Sends every function that names a GPU to the CPU, and shows each call to who watches.

    Args:
        watch: Has ``called(func, args, kwargs, result)``.
        cut: Makes a batch that is moved to the GPU smaller.
    """

    def __init__(self, watch: Any, cut: Any) -> None:
        super().__init__()
        self.watch, self.cut = watch, cut

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one function."""
        kwargs = kwargs or {}
        if func is torch.device:  # a name, which the script may look at
            return torch.device("cuda", args[0]) if args and _number(args[0]) else func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if name in _HALVES:
            func, name = torch.Tensor.float, "float"
        args = tuple(map(full, args))
        for key, value in kwargs.items():
            kwargs[key] = full(value)
        if name in _MAKES and args and isinstance(args[0], torch.Tensor):
            result = self._moved(name, func, args, kwargs)
        elif name == "pin_memory":
            return args[0]
        elif name == "type" and len(args) > 1 and isinstance(args[1], str):
            result = func(args[0], args[1].replace("torch.cuda.", "torch."), *args[2:], **kwargs)
        else:
            if "device" in kwargs:
                device = kwargs["device"]
                kwargs["device"] = torch.device("cpu") if _number(device) else on_host(device)
            kwargs.pop("pin_memory", None)
            result = func(*map(on_host, args), **kwargs)
        self.watch.called(func, name, args, kwargs, result)
        return result

    def _moved(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        tensor, rest = args[0], args[1:]
        if name == "cuda":
            return self._copy(tensor)
        goes = any(_gpu(value) or _number(value) for value in (*rest, kwargs.get("device")))
        rest = tuple("cpu" if _number(value) else on_host(value) for value in rest)
        if "device" in kwargs:
            kwargs["device"] = "cpu" if _number(kwargs["device"]) else on_host(kwargs["device"])
        result = func(tensor, *rest, **kwargs)
        return self._copy(result) if goes and result is tensor else self.cut(result) if goes else result

    def _copy(self, tensor: Any) -> Any:
        """Return what lies on the GPU: never the memory of the host, unless a graph hangs on it."""
        if tensor.requires_grad or isinstance(tensor, torch.nn.Parameter):
            return tensor
        smaller = self.cut(tensor)
        return smaller.clone() if smaller is tensor and type(tensor) is torch.Tensor else smaller


def _number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _gpu(value: Any) -> bool:
    return on_host(value) is not value


def install() -> None:
    """Replace what would need a GPU or a second process below the reach of the mode."""
    _install_defaults()
    _install_wrappers()
    _install_group()


def _install_defaults() -> None:
    set_device, load = torch.set_default_device, torch.load
    torch.set_default_device = lambda device: set_device(on_host(device))
    set_dtype = torch.set_default_dtype
    torch.set_default_dtype = lambda dtype: set_dtype(full(dtype))

    def loaded(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        return load(f, "cpu" if map_location is None or not callable(map_location) else map_location, *args, **kwargs)

    torch.load = loaded
    set_type = torch.set_default_tensor_type

    def set_default_tensor_type(kind: Any) -> None:
        name = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__name__}"
        set_type(name.replace("torch.cuda.", "torch."))

    torch.set_default_tensor_type = set_default_tensor_type
    # Scaling is for halves, and there are none: autocast of CUDA does nothing on the CPU.
    for scaler in {torch.amp.GradScaler, torch.cuda.amp.GradScaler}:
        scaler.__init__ = _unscaled(scaler.__init__)


def _unscaled(make: Any) -> Any:
    def made(scaler: Any, *args: Any, **kwargs: Any) -> None:
        make(scaler, enabled=False)

    return made


def _install_wrappers() -> None:
    """Wrappers for several GPUs: with one process and one device they add nothing to the numbers."""
    torch.nn.DataParallel.forward = lambda wrapper, *inputs, **kwargs: wrapper.module(*inputs, **kwargs)
    if not torch.distributed.is_available():
        return
    import contextlib

    from torch.nn.parallel import DistributedDataParallel as Wrapper

    def make(self: Any, module: Any, *args: Any, **kwargs: Any) -> None:
        torch.nn.Module.__init__(self)
        self.module, self.require_backward_grad_sync = module, True

    Wrapper.__init__ = make
    Wrapper.forward = lambda wrapper, *inputs, **kwargs: wrapper.module(*inputs, **kwargs)
    Wrapper.no_sync = lambda wrapper: contextlib.nullcontext()
    Wrapper.join = lambda wrapper, *args, **kwargs: contextlib.nullcontext()
    Wrapper.register_comm_hook = lambda wrapper, state, hook: None
    Wrapper._set_static_graph = lambda wrapper: None
    Wrapper.__getstate__ = lambda wrapper: wrapper.__dict__


def _install_group() -> None:
    """Let ``torch.distributed`` start as a world of one."""
    if not torch.distributed.is_available():
        return
    import torch.distributed as dist
    from torch.distributed import distributed_c10d as c10d

    from preflight.dryrun.virtual import private_groups

    start, group = c10d.init_process_group, c10d.new_group

    def begin(backend: Any = None, *args: Any, **kwargs: Any) -> None:
        start("fake", store=private_groups.prepare_fake_group(), rank=0, world_size=1)

    def answer(ranks: Any = None, *args: Any, **kwargs: Any) -> Any:
        return group([0], backend="fake")

    replace_everywhere(start, begin)
    replace_everywhere(group, answer)
    dist.get_backend = lambda group=None: "nccl"
    dist.is_nccl_available = lambda: True
    import torch.multiprocessing as processes

    def spawn(fn: Any, args: Any = (), nprocs: int = 1, *_: Any, **__: Any) -> None:
        fn(0, *args)  # the first process runs here, the others not at all

    processes.spawn = spawn
    processes.start_processes = spawn
    sys.modules["torch.multiprocessing.spawn"].spawn = spawn  # type: ignore[attr-defined]
