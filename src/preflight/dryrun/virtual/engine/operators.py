"""Operators that a fake tensor alone cannot answer: copies to and from the host, and results that depend on numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from preflight.dryrun.virtual import private
from preflight.dryrun.virtual.engine import asserts, convolutions, sparse, values

if TYPE_CHECKING:
    from preflight.dryrun.virtual.engine.gpu import VirtualGpu

Fake = private.fake_class()


def _virtual(value: Any) -> bool:
    return isinstance(value, Fake) and value.fake_device.type == private.BACKEND


def _item(gpu: VirtualGpu, func: Any, args: Any, kwargs: Any) -> Any:
    if not _virtual(args[0]):
        return NotImplemented
    gpu.synchronise("item", args[0].element_size())
    # Where the number is known, it has been read before.
    holds = asserts.asserted() if args[0].dtype is torch.bool else None
    return values.read(args[0]) if holds is None else holds


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
    gpu.seen.note("host to device", bytes=source.numel() * source.element_size())


def to_host(gpu: VirtualGpu, source: Any, dtype: Any, kind: str) -> Any:
    """Return a real tensor with plausible numbers for one that is moved from the GPU."""
    gpu.synchronise(kind, source.numel() * source.element_size())
    known = gpu.known.get(source)
    if known is not None:
        return known.to(dtype=dtype or source.dtype, copy=True)
    number = values.read(source)
    return torch.full(tuple(source.shape), number, dtype=dtype or source.dtype)


def _copy(gpu: VirtualGpu, func: Any, args: Any, kwargs: Any) -> Any:
    target, source = args[0], args[1]
    if _virtual(source) and not isinstance(target, Fake):
        target.copy_(to_host(gpu, source, None, "copy to the host"))
        return target
    if _virtual(target) and not isinstance(source, Fake):
        _copied_to_gpu(gpu, source)
        values.remember(target, values.constant_of(source), changed=True)
        return target  # the numbers are written where known ones are kept
    return NotImplemented


def _chosen(gpu: VirtualGpu, mask: Any) -> int:
    """Return how many elements a mask plausibly chooses: its typical value times its size, at least one."""
    gpu.synchronise("size depends on numbers", 8)
    known = gpu.known.get(mask) if isinstance(mask, Fake) else mask
    if known is not None:
        return int(known.count_nonzero())
    told = values.typical(mask)
    share = 1.0 if told is None else min(1.0, max(0.0, told))
    count = max(1, round(mask.numel() * share)) if mask.numel() else 0
    gpu.suppose(count, mask.numel())
    return count


def _nonzero(gpu: VirtualGpu, func: Any, args: Any, kwargs: Any) -> Any:
    with gpu.fake:
        return torch.empty((_chosen(gpu, args[0]), args[0].dim()), dtype=torch.int64, device=gpu.device)


def _masked_select(gpu: VirtualGpu, func: Any, args: Any, kwargs: Any) -> Any:
    whole = torch.broadcast_shapes(tuple(args[0].shape), tuple(args[1].shape))
    # A mask that is narrower than the tensor chooses whole rows of it.
    count = _chosen(gpu, args[1]) * (math.prod(whole) // max(1, args[1].numel()))
    with gpu.fake:
        return torch.empty((count,), dtype=args[0].dtype, device=gpu.device)


def _unique(gpu: VirtualGpu, func: Any, args: Any, kwargs: Any) -> Any:
    """All are taken to be different."""
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
        # A single value lies on the host, and would be taken for a constant.
        rest = [
            torch.empty(a.shape, dtype=a.dtype, device=gpu.device)
            if isinstance(a, torch.Tensor) and not isinstance(a, Fake)
            else a
            for a in args[2:]
        ]
        return func(args[0], unfolded, *rest, **kwargs)


def _unique_along(gpu: VirtualGpu, func: Any, args: Any, kwargs: Any) -> Any:
    """Run ``unique_dim`` and ``unique_consecutive``; all are taken to be different."""
    gpu.synchronise("size depends on numbers", 8)
    given = args[0]
    at = args[1] if name_is(func, "unique_dim") else kwargs.get("dim", args[3] if len(args) > 3 else None)
    count = given.numel() if at is None else given.shape[at]
    with gpu.fake:
        found = torch.empty(tuple(given.shape) if at is not None else (count,), dtype=given.dtype, device=gpu.device)
        inverse = torch.empty((count,) if at is not None else tuple(given.shape), dtype=torch.int64, device=gpu.device)
        counts = torch.empty((count,), dtype=torch.int64, device=gpu.device)
    return found, inverse, counts


def name_is(func: Any, name: str) -> bool:
    """Whether an operator bears a name."""
    return bool(func._schema.name == f"aten::{name}")


def _ctc(gpu: VirtualGpu, func: Any, args: Any, kwargs: Any) -> Any:
    """Run ``_ctc_loss``: the targets of a batch are as long as the matrix of them is wide.

    Source: ``aten/src/ATen/native/cuda/LossCTC.cu``: the probabilities of every state at every moment are kept.
    """
    logs, targets, lengths = args[0], args[1], args[3]
    moments, batch, _ = logs.shape
    if isinstance(lengths, (list, tuple)) and any(lengths):
        longest = max(lengths)
    elif targets.dim() == 1:
        longest = -(-targets.shape[0] // max(1, batch))
    else:
        longest = targets.shape[1]
    with gpu.fake:
        return logs.new_empty((batch,)), logs.new_empty((batch, moments, 2 * longest + 1))


def _ctc_backward(gpu: VirtualGpu, func: Any, args: Any, kwargs: Any) -> Any:
    with gpu.fake:
        return torch.empty_like(args[1])


def _counts(gpu: VirtualGpu, func: Any, args: Any, kwargs: Any) -> Any:
    """Count indices that are not known: each possible one is met as often as every other, as far as that comes out even."""
    chosen, weights = args[0], args[1] if len(args) > 1 else kwargs.get("weights")
    count = args[2] if len(args) > 2 else kwargs.get("minlength", 0)
    told = values.typical(chosen)
    count = max(count, told.among if isinstance(told, values.Index) else 0)
    if not count or weights is not None:
        return NotImplemented
    gpu.synchronise("size depends on numbers", 8)
    each, left = divmod(chosen.numel(), count)
    with gpu.fake:
        found = torch.empty((count,), dtype=torch.int64, device=gpu.device)
    gpu.known.put(found, torch.tensor([each + (number < left) for number in range(count)]))
    return found


def _repeats(gpu: VirtualGpu, func: Any, args: Any, kwargs: Any) -> Any:
    """Run ``repeat_interleave`` of a tensor of counts that are not known: each is taken once, or as often as is typical."""
    if len(func._schema.arguments) > 2 or kwargs.get("output_size") is not None or len(args) > 1:
        return NotImplemented
    gpu.synchronise("size depends on numbers", 8)
    each = values.typical(args[0])
    with gpu.fake:
        count = round(args[0].numel() * (1.0 if each is None else each))
        return torch.empty((count,), dtype=args[0].dtype, device=gpu.device)


_MOST = 1 << 26
"""Elements of the largest argument with which an operator is tried on the host."""


def on_host(gpu: VirtualGpu, func: Any, args: Any, kwargs: Any, error: Exception) -> Any:
    """Run an operator for which there is no rule of shapes on the host, with typical numbers, and take over the shapes.

    Raises:
        NotImplementedError: The host cannot run it either.
    """
    given: dict[int, Any] = {}
    refusal = NotImplementedError(f"{func._schema.name} is an operator that the virtual GPU does not know")

    def real(tensor: Any) -> Any:
        if tensor.numel() > _MOST:
            raise refusal
        known = gpu.known.get(tensor)
        if known is None:
            known = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype)
            known.fill_(0 if not tensor.dtype.is_floating_point else values.read(tensor))
        given[id(known)] = tensor
        return known

    host_args, host_kwargs = private.map_tensors(Fake, real, (args, kwargs))
    if host_kwargs.get("device") is not None:
        host_kwargs = {**host_kwargs, "device": torch.device("cpu")}
    try:
        found = func(*host_args, **host_kwargs)
    except (RuntimeError, NotImplementedError):
        raise refusal from error

    def back(tensor: Any) -> Any:
        if id(tensor) in given:
            return given[id(tensor)]
        with gpu.fake:
            if tensor.layout is not torch.strided:
                return tensor
            return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=gpu.device)

    return private.map_tensors(torch.Tensor, back, found)


def _equal(gpu: VirtualGpu, func: Any, args: Any, kwargs: Any) -> Any:
    gpu.synchronise("comparison", 1)
    if tuple(args[0].shape) != tuple(args[1].shape):
        return False
    one, other = values.typical(args[0]), values.typical(args[1])
    return one is None or other is None or one == other


def _no_nesting(gpu: VirtualGpu, func: Any, args: Any, kwargs: Any) -> Any:
    """Padding is not taken out of a batch by nested tensors: an encoder keeps its padded form."""
    gpu.synchronise("comparison", 1)
    return False


SPECIAL: dict[str, Callable[..., Any]] = {
    "_local_scalar_dense": _item,
    "_to_copy": _to_copy,
    "copy_": _copy,
    "bincount": _counts,
    "nonzero": _nonzero,
    "masked_select": _masked_select,
    "_unique2": _unique,
    "unique_dim": _unique_along,
    "unique_consecutive": _unique_along,
    "repeat_interleave": _repeats,
    "_ctc_loss": _ctc,
    "_ctc_loss_backward": _ctc_backward,
    "index": _index,
    "index_put_": _index,
    "equal": _equal,
    "clone": sparse.clone,
    "_coalesce": sparse.coalesce,
    "sparse_mask": sparse.mask,
    "_nested_tensor_from_mask_left_aligned": _no_nesting,
    "convolution": convolutions.forward,
    "convolution_backward": convolutions.backward,
}
"""What handles an operator, by its name; ``NotImplemented`` leaves it to the fake tensors."""
