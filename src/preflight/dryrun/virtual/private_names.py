"""The private names of PyTorch that the virtual GPU rests on, with the releases in which each was seen.

Standard library only: the process that starts a dry run reads it, too.
"""

from __future__ import annotations

import importlib
from typing import Any

OLDEST = "2.4"
"""The first release that a dry run works with; older ones cannot switch autocast on for a device by its name."""

TRIED = ("2.4", "2.6", "2.8", "2.9", "2.13", "2.15")
"""The releases under which the programs of ``benchmarks/dryrun/versions.py`` were run."""

ALL = " ".join(TRIED)

NEEDED = {
    "torch._C._ExcludeDispatchKeyGuard": ALL,
    "torch._C._autograd._get_sequence_nr": ALL,
    "torch._C._current_autograd_node": ALL,
    "torch._C._dispatch_get_all_op_names": ALL,
    "torch._C._dispatch_has_backend_fallback": ALL,
    "torch._C._dispatch_has_kernel_for_dispatch_key": ALL,
    "torch._C.TensorBase.data": ALL,
    "torch._subclasses.fake_tensor.FakeTensor": ALL,
    "torch._subclasses.fake_tensor.FakeTensorMode": ALL,
    "torch.Tensor._make_wrapper_subclass": ALL,
    "torch.UntypedStorage._cdata": ALL,
    "torch.autograd._engine_run_backward": ALL,
    "torch.library.fallthrough_kernel": ALL,
    "torch.utils._foreach_utils._has_foreach_support": ALL,
    "torch.utils._pytree.arg_tree_leaves": ALL,
    "torch.utils._pytree.tree_map_only": ALL,
    "torch.utils._python_dispatch.TorchDispatchMode": ALL,
    "torch.utils.flop_counter.flop_registry": ALL,
    "torch.utils.swap_tensors": ALL,
}
"""Without these no script runs."""

SOME = {
    # A device guard of Python's own; without it ``private_guard`` takes the way over ``meta``.
    "torch.utils.backend_registration._setup_privateuseone_for_python_backend": "2.13 2.15",
    "torch._register_device_module": ALL,
    "torch._subclasses.fake_tensor.FakeTensorMode.in_kernel_invocation": ALL,
    "torch._C._group_tensors_by_device_and_dtype": ALL,
    "torch.Tensor._make_dtensor": "2.9",
    # How operators without a kernel for a key go on: the one or the other.
    "torch.library.Library.fallback": "2.6 2.8 2.9 2.13 2.15",
    "torch._C._dispatch_library": ALL,
    # torch.distributed: the handle of a finished collective is made in the one way or the other.
    "torch._C._distributed_c10d.FakeWork": "2.8 2.9 2.13 2.15",
    "torch._C._distributed_c10d._create_work_from_future": ALL,
    "torch._C._distributed_c10d.Work.boxed": ALL,
    "torch._C._distributed_c10d.ProcessGroup.unbox": ALL,
    "torch._C._get_accelerator": ALL,
    "torch.distributed.Backend.backend_capability": ALL,
    "torch.distributed.Backend.default_device_backend_map": ALL,
    "torch.testing._internal.distributed.fake_pg.FakeStore": ALL,
    "torch.distributed.tensor._sharding_prop.ShardingPropagator": "2.6 2.8 2.9 2.13 2.15",
    "torch.distributed._tensor._sharding_prop.ShardingPropagator": "2.4",
}
"""Needed by some releases or by some scripts."""


def missing() -> list[str]:
    """Return the names of ``NEEDED`` that this PyTorch does not have."""
    return [name for name in NEEDED if not present(name)]


def present(name: str) -> bool:
    """Whether this PyTorch has a name."""
    parts = name.split(".")
    for at in range(len(parts) - 1, 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:at]))
        except ImportError:
            continue
        for part in parts[at:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def release(version: str) -> tuple[int, int]:
    """Return the first two numbers of a version: ``2.4.1+cu121`` is (2, 4)."""
    major, minor = version.split("+")[0].split(".")[:2]
    return int(major), int("".join(filter(str.isdigit, minor)) or 0)


def moved(version: str) -> dict[str, str]:
    """Return what is otherwise than it was seen: names of both tables with what happened to each.

    A release that was not tried is held against the tried one before it.
    """
    older = [known for known in TRIED if release(known) <= release(version)]
    like = older[-1] if older else TRIED[0]
    told: dict[str, str] = {}
    for name, releases in {**NEEDED, **SOME}.items():
        here, there = present(name), like in releases.split()
        if here != there:
            told[name] = f"gone since {like}" if there else f"new since {like}"
    return told
