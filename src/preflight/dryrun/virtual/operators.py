"""Operators that a fake tensor alone cannot answer: copies to and from the host, and results that depend on numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from preflight.dryrun.virtual import convolutions, private, values

if TYPE_CHECKING:
    from preflight.dryrun.virtual.gpu import VirtualGpu

Fake = private.fake_class()


def _virtual(value: Any) -> bool:
    return isinstance(value, Fake) and value.fake_device.type == private.BACKEND


def _item(gpu: VirtualGpu, func: Any, args: Any, kwargs: Any) -> Any:
    if not _virtual(args[0]):
        return NotImplemented
    gpu.synchronise("item", args[0].element_size())
    return values.read(args[0])


def _to_copy(gpu: VirtualGpu, func: Any, args: Any, kwargs: Any) -> Any:
    device = kwargs.get("device")
    source = args[0]
    if device is None or (_virtual(source) == (device.type == private.BACKEND) and isinstance(source, Fake)):
        return NotImplemented
    dtype = kwargs.get("dtype")
    if device.type == private.BACKEND:
        return to_gpu(gpu, source, dtype)
    if device.type == "cpu" and _virtual(source):
        return to_host(gpu, source, dtype, "copy to the host")
    return NotImplemented


def to_gpu(gpu: VirtualGpu, source: Any, dtype: Any = None) -> Any:
    """Return the fake tensor for a real one that is moved to the GPU."""
    target = gpu.empty_like(source, dtype)
    values.remember(target, None if isinstance(source, Fake) else values.constant_of(source))
    _copied_to_gpu(gpu, source)
    return target


def _copied_to_gpu(gpu: VirtualGpu, source: Any) -> None:
    _, step, _, line = gpu.progress.where()
    size = source.numel() * source.element_size()
    gpu.copies[("host to device", line, step)] += size
    gpu.seen.note("host to device", bytes=size)


def to_host(gpu: VirtualGpu, source: Any, dtype: Any, kind: str) -> Any:
    """Return a real tensor with plausible numbers for one that is moved from the GPU."""
    gpu.synchronise(kind, source.numel() * source.element_size())
    number = values.read(source)
    return torch.full(tuple(source.shape), number, dtype=dtype or source.dtype)


def _copy(gpu: VirtualGpu, func: Any, args: Any, kwargs: Any) -> Any:
    target, source = args[0], args[1]
    if _virtual(source) and not isinstance(target, Fake):
        target.copy_(to_host(gpu, source, None, "copy to the host"))
        return target
    if _virtual(target) and not isinstance(source, Fake):
        _copied_to_gpu(gpu, source)
        values.remember(target, values.constant_of(source))
        return target
    return NotImplemented


def _chosen(gpu: VirtualGpu, mask: Any) -> int:
    """Return how many elements a mask plausibly chooses: its typical value times its size, at least one."""
    told = values.typical(mask)
    share = 1.0 if told is None else min(1.0, max(0.0, told))
    gpu.synchronise("size depends on numbers", 8)
    return max(1, round(mask.numel() * share)) if mask.numel() else 0


def _nonzero(gpu: VirtualGpu, func: Any, args: Any, kwargs: Any) -> Any:
    with gpu.fake:
        return torch.empty((_chosen(gpu, args[0]), args[0].dim()), dtype=torch.int64, device=gpu.device)


def _masked_select(gpu: VirtualGpu, func: Any, args: Any, kwargs: Any) -> Any:
    count = _chosen(gpu, args[1])
    with gpu.fake:
        return torch.empty((count,), dtype=args[0].dtype, device=gpu.device)


def _unique(gpu: VirtualGpu, func: Any, args: Any, kwargs: Any) -> Any:
    gpu.synchronise("size depends on numbers", 8)
    values_of = args[0]
    with gpu.fake:
        found = torch.empty((values_of.numel(),), dtype=values_of.dtype, device=gpu.device)
        inverse = torch.empty(tuple(values_of.shape), dtype=torch.int64, device=gpu.device)
        counts = torch.empty((values_of.numel(),), dtype=torch.int64, device=gpu.device)
    return found, inverse, counts


def _index(gpu: VirtualGpu, func: Any, args: Any, kwargs: Any) -> Any:
    """Turn masks among the indices into numbers, as the operator does on a GPU."""
    indices = list(args[1])
    if not any(isinstance(i, torch.Tensor) and i.dtype in (torch.bool, torch.uint8) for i in indices):
        return NotImplemented
    unfolded: list[Any] = []
    for index in indices:
        if isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8):
            count = _chosen(gpu, index)
            with gpu.fake:
                unfolded += [torch.empty((count,), dtype=torch.int64, device=gpu.device) for _ in range(index.dim())]
        else:
            unfolded.append(index)
    with gpu.fake:
        return func(args[0], unfolded, *args[2:], **kwargs)


def _equal(gpu: VirtualGpu, func: Any, args: Any, kwargs: Any) -> Any:
    gpu.synchronise("comparison", 1)
    return tuple(args[0].shape) == tuple(args[1].shape)


SPECIAL: dict[str, Callable[..., Any]] = {
    "_local_scalar_dense": _item,
    "_to_copy": _to_copy,
    "copy_": _copy,
    "nonzero": _nonzero,
    "masked_select": _masked_select,
    "_unique2": _unique,
    "index": _index,
    "index_put_": _index,
    "equal": _equal,
    "convolution": convolutions.forward,
    "convolution_backward": convolutions.backward,
}
"""What handles an operator, by its name; ``NotImplemented`` leaves it to the fake tensors."""
