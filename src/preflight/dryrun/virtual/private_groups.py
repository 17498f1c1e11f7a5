"""The private interfaces of ``torch.distributed`` that the virtual GPU rests on, as those in ``private``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from preflight.dryrun.virtual.private import BACKEND


def prepare_fake_group() -> Any:
    """Make the fake process group known for the virtual GPU; return a store to start it with."""
    import torch.distributed as dist
    from torch.testing._internal.distributed import fake_pg

    capability = dist.Backend.backend_capability[dist.Backend.FAKE]
    if BACKEND not in capability:
        capability.append(BACKEND)
        dist.Backend.default_device_backend_map[BACKEND] = dist.Backend.FAKE
    return fake_pg.FakeStore()


def finished_work() -> Any:
    """Return the handle of a collective that is done, as operators give it."""
    from torch._C import _distributed_c10d

    c10d: Any = _distributed_c10d
    if hasattr(c10d, "FakeWork"):
        return c10d.FakeWork().boxed()
    import torch

    done: Any = torch.futures.Future()  # before 2.8
    done.set_result([])
    return c10d._create_work_from_future(done).boxed()


def group_size(value: Any) -> int | None:
    """Return the number of ranks if a value is a process group as operators get it."""
    import torch

    if not isinstance(value, torch.ScriptObject):
        return None
    from torch._C._distributed_c10d import ProcessGroup

    try:
        return int(ProcessGroup.unbox(value).size())
    except (RuntimeError, ValueError):
        return None


def group_of(value: Any) -> Any:
    """Return the process group of a value as operators get it, or None."""
    import torch

    if not isinstance(value, torch.ScriptObject):
        return None
    from torch._C._distributed_c10d import ProcessGroup

    try:
        return ProcessGroup.unbox(value)
    except (RuntimeError, ValueError):
        return None


def named_group(name: Any) -> Any:
    """Return the process group of a name, as functional collectives call it, or None."""
    from torch.distributed import distributed_c10d

    try:
        return distributed_c10d._resolve_process_group(name)
    except (RuntimeError, TypeError, AttributeError, LookupError, ValueError):
        return None


def watch_sharding(enter: Callable[[int], None]) -> None:
    """Tell when DTensor works out shapes on whole tensors that nobody has: 1 as it begins, -1 as it ends."""
    try:
        from torch.distributed.tensor._sharding_prop import ShardingPropagator
    except ImportError:  # before 2.5
        from torch.distributed._tensor._sharding_prop import ShardingPropagator

    for name in ("_propagate_tensor_meta_non_cached", "_propagate_tensor_meta"):
        work_out = getattr(ShardingPropagator, name, None)
        if work_out is not None:
            setattr(ShardingPropagator, name, _told(work_out, enter))


def _told(function: Any, enter: Callable[[int], None]) -> Any:
    def watched(*args: Any, **kwargs: Any) -> Any:
        enter(1)
        try:
            return function(*args, **kwargs)
        finally:
            enter(-1)

    return watched


def leave_flat_parameters_on_gpu() -> None:
    """Let FSDP gather a state dict without moving its flat parameters to the host in between.

    A fake parameter cannot be exchanged for a real one while a backward hook holds it. The peak stays the same: on a real
    GPU, too, the parameters are gathered there before they are moved.
    """
    import contextlib

    try:
        from torch.distributed.fsdp._flat_param import FlatParamHandle
    except ImportError:
        return
    FlatParamHandle.to_cpu = lambda handle: contextlib.nullcontext()
