"""Tensors that wrap tensors of the virtual GPU (DTensor, asynchronous results): they, too, say that they lie on ``cuda``."""

from __future__ import annotations

from typing import Any

import torch

from preflight.dryrun.virtual import private, private_guard
from preflight.dryrun.virtual.absent import after
from preflight.dryrun.virtual.engine import gpu as virtual
from preflight.dryrun.virtual.engine import tensors


def install(gpu: virtual.VirtualGpu) -> None:
    """Let wrappers be made for the virtual GPU; their operators come back here once they are taken apart."""
    make = torch.Tensor._make_wrapper_subclass
    known: set[type] = {tensors.Fake}

    def wrapped(kind: Any, *args: Any, **kwargs: Any) -> Any:
        kwargs["device"] = tensors.translate(kwargs.get("device"), gpu.device)
        if kind not in known:
            known.add(kind)
            _show_as_cuda(kind, gpu)
        return private_guard.wrap(make, kind, args, kwargs)

    torch.Tensor._make_wrapper_subclass = wrapped

    def sharded(module: Any) -> None:
        # PyTorch makes most of these in C++, past the function above.
        if module.DTensor not in known:
            known.add(module.DTensor)
            _show_as_cuda(module.DTensor, gpu)

    after.imported("torch.distributed.tensor._api", sharded)
    after.imported("transformers.utils.import_utils", _untraced)


def _show_as_cuda(kind: Any, gpu: virtual.VirtualGpu) -> None:
    plain = kind.device

    def device(tensor: Any) -> Any:
        found = private_guard.true(plain.__get__(tensor, kind))
        if found.type == private.BACKEND and not virtual.inside():
            return torch.device("cuda", gpu.index)
        return found

    kind.device = property(device)
    kind.is_cuda = property(lambda tensor: private_guard.true(plain.__get__(tensor, kind)).type == private.BACKEND)


def local(tensor: Any) -> Any:
    """Return the part of a sharded tensor that lies on this rank, or the tensor itself."""
    while hasattr(tensor, "_local_tensor"):
        tensor = tensor._local_tensor
    return tensor


def install_devices() -> None:
    """Let ``torch.device(0)``, which means the accelerator that PyTorch knows, be ``cuda:0``."""
    plain = torch.device

    class Kind(type):
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            if len(args) == 1 and isinstance(args[0], int) and not kwargs:
                return plain("cuda", args[0])
            return plain(*args, **kwargs)

        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, plain)

        def __subclasscheck__(cls, other: Any) -> bool:
            return issubclass(other, plain)

    device = Kind("device", (), {"__module__": "torch", "__doc__": plain.__doc__})
    torch.device = device


def _untraced(module: Any) -> None:
    """Let transformers see tensors of a GPU: for fake ones, which it takes for a trace, it makes masks that it leaves out.

    With such a mask attention gets another kernel, and keys and values are repeated for every head.
    """
    module.is_fake_tensor = lambda tensor: False
