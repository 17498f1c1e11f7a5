"""Runs a program really, on the CPU, and writes down the live bytes of real storages after every operator.

Usage: python cpu_side.py RESULT.json PROGRAM ARGUMENTS...

What a CPU would do otherwise than CUDA, and what is made alike here:
* autocast: the lists of CUDA's autocast take the place of the CPU's (the classification is the product's own; a test
  holds it against the one that PyTorch's own tests keep);
* dropout: one operator that keeps a mask of bytes, as on CUDA, in place of three that keep a mask of the input's type;
* attention: the decomposition (``math``) where ``choose`` of the dry run takes it, else the CPU's flash kernel, whose
  result and log-sum-exp stand for those of CUDA's kernels; its other outputs differ, and are counted as a difference;
* LSTM, GRU, LSTM cells and attention with dropout, which a CPU takes apart: ``cpu_kernels.py`` makes what CUDA's kernels make.
Tensors made from Python values (``torch.tensor(1.0)``, the step counts of optimizers) stay on the host when a program
runs on a GPU, so they do not count.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import weakref
from typing import Any

import cpu_kernels
import torch
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

from preflight.dryrun.virtual.engine.autocast import FULL, FULL_RESULT, WIDEST

_kept: list[Any] = []


class Tracker(TorchDispatchMode):
    """Sees every result of every operator, and when its storage dies."""

    def __init__(self) -> None:
        super().__init__()
        self.live = 0
        self.trace: list[tuple[str, int]] = []
        self.host: dict[int, Any] = {}
        self.known: dict[int, Any] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operator."""
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.rpartition("::")[2]
        given = [t for t in _pytree.arg_tree_leaves(*args, **(kwargs or {})) if isinstance(t, torch.Tensor)]
        from_host = name == "lift_fresh" or (given and all(t.untyped_storage()._cdata in self.host for t in given))
        made = [t for t in _pytree.tree_leaves(result) if isinstance(t, torch.Tensor)]
        for tensor in made:
            self._see(tensor.untyped_storage(), bool(from_host))
        if not from_host:
            self.trace.append((name, self.live))
        return result

    def _see(self, storage: Any, host: bool) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self.known or key in self.host:
            return
        place = self.host if host else self.known
        place[key] = weakref.ref(storage, lambda _: self._drop(place, key, 0 if host else size))
        self.live += 0 if host else size

    def _drop(self, place: dict[int, Any], key: int, size: int) -> None:
        del place[key]
        self.live -= size


def _as_cuda_casts() -> None:
    """Let autocast on the CPU follow the lists of CUDA."""
    library = torch.library.Library("aten", "IMPL")
    _kept.append(library)
    copies: dict[int, tuple[Any, Any]] = {}
    off = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)

    def cast(tree: Any, dtype: torch.dtype) -> Any:
        def change(tensor: torch.Tensor) -> torch.Tensor:
            if not tensor.is_floating_point() or tensor.dtype in (dtype, torch.float64):
                return tensor
            if not (tensor.requires_grad and tensor.is_leaf and tensor.dtype == torch.float32):
                return tensor.to(dtype)
            if id(tensor) not in copies:
                copies[id(tensor)] = (tensor, tensor.to(dtype))
            return copies[id(tensor)][1]

        return _pytree.tree_map_only(torch.Tensor, change, tree)

    def kernel(name: str, operator: Any) -> Any:
        dtype_wanted = any(a.name == "dtype" for a in operator._schema.arguments)

        def run(*args: Any, **kwargs: Any) -> Any:
            with torch._C._ExcludeDispatchKeyGuard(off):
                if name in FULL_RESULT and dtype_wanted:
                    given = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.dtype)]
                    if args[0].dtype in (torch.float16, torch.bfloat16) and not given:
                        kwargs["dtype"] = torch.float32
                elif name in (FULL | FULL_RESULT):
                    args, kwargs = cast(args, torch.float32), cast(kwargs, torch.float32)
                elif name in WIDEST:
                    leaves = [t for t in _pytree.arg_tree_leaves(*args, **kwargs) if isinstance(t, torch.Tensor)]
                    if len({t.dtype for t in leaves if t.is_floating_point()}) > 1:
                        args, kwargs = cast(args, torch.float32), cast(kwargs, torch.float32)
                else:
                    dtype = torch.get_autocast_dtype("cpu")
                    args, kwargs = cast(args, dtype), cast(kwargs, dtype)
                return operator(*args, **kwargs)

        return run

    has = torch._C._dispatch_has_kernel_for_dispatch_key
    for name in torch._C._dispatch_get_all_op_names():
        if name.startswith("aten::") and (has(name, "AutocastCUDA") or has(name, "AutocastCPU")):
            plain, _, overload = name[len("aten::") :].partition(".")
            operator = getattr(getattr(torch.ops.aten, plain), overload or "default")
            if has(name, "AutocastCUDA"):
                function = kernel(plain, operator)
            else:  # only on the CPU's lists
                function = torch.library.fallthrough_kernel
            library.impl(name[len("aten::") :], function, "AutocastCPU", allow_override=True)
    forget = torch.clear_autocast_cache

    def clear() -> None:
        copies.clear()
        forget()

    torch.clear_autocast_cache = clear
    torch.amp.autocast_mode.torch.clear_autocast_cache = clear


def _as_cuda_kernels() -> None:
    """Take the operators that CUDA takes where PyTorch has more than one for a composite."""
    library = torch.library.Library("aten", "IMPL")
    _kept.append(library)

    def dropout(input: torch.Tensor, p: float, train: bool) -> torch.Tensor:
        return torch.native_dropout(input, p, train)[0] if train and p > 0 else input

    library.impl("dropout", dropout, "AutogradCPU", allow_override=True)
    cpu_kernels.install()


def main(result: str, script: str, *arguments: str) -> None:
    """Run a program; write the trace."""
    _as_cuda_kernels()
    _as_cuda_casts()
    sys.argv = [script, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    tracker = Tracker()
    with tracker:
        runpy.run_path(script, run_name="__main__")
    with open(result, "w", encoding="utf-8") as file:
        json.dump({"trace": tracker.trace}, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
