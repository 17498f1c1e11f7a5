"""``nn.DataParallel`` over several GPUs: what the first of them does.

It gets its share of the batch, gathers the outputs of all, and sums the gradients of all replicas. Its replica shares the
parameters; since autograd sees one node that copies them all, the replica's gradients wait for each other, and their sums
lie beside them (torch/nn/parallel/_functions.py, torch/nn/parallel/comm.py).
"""

from __future__ import annotations

from typing import Any

import torch

from preflight.dryrun.virtual import private
from preflight.dryrun.virtual.absent import missing
from preflight.dryrun.virtual.engine.gpu import Fake, VirtualGpu

_CHUNK = 10 << 20
"""Bytes of gradients that are summed at once (``buffer_size`` in torch/nn/parallel/_functions.py)."""


def install(gpu: VirtualGpu) -> None:
    """Let ``DataParallel`` do the work of the first of its GPUs."""
    kind = torch.nn.DataParallel
    plain = kind.forward

    def forward(parallel: Any, *inputs: Any, **kwargs: Any) -> Any:
        count = len(getattr(parallel, "device_ids", ()))
        if count < 2:
            return plain(parallel, *inputs, **kwargs)
        missing.assume(
            f"nn.DataParallel over {count} GPUs was followed on the first of them: its share of the batch, the outputs of "
            "all and the sums of all gradients; the others need less"
        )
        total = _rows((inputs, kwargs), parallel.dim)
        inputs, kwargs = private.map_tensors(torch.Tensor, lambda t: _share(t, count, parallel.dim), (inputs, kwargs))
        output = _replica(parallel.module, inputs, kwargs)
        return private.map_tensors(torch.Tensor, lambda t: _Gather.apply(t, count, parallel.dim, total), output)

    kind.forward = forward  # type: ignore[method-assign, unused-ignore]


def _rows(given: Any, dim: int) -> int | None:
    """Return the size of the batch: that of the first tensor that has one."""
    return next(
        (t.shape[dim] for t in private.leaves((given,), {}) if isinstance(t, torch.Tensor) and t.dim() > dim), None
    )


def _share(tensor: Any, count: int, dim: int) -> Any:
    """Return the first of so many parts, on the GPU."""
    part = tensor.chunk(count, dim)[0] if tensor.dim() > dim else tensor
    return part.cuda()


def _replica(module: Any, inputs: Any, kwargs: Any) -> Any:
    """Call a module with copies of its parameters, as far as autograd is concerned."""
    named = {name: p for name, p in module.named_parameters() if p.requires_grad and isinstance(p, Fake)}
    if not named or not torch.is_grad_enabled():
        return module(*inputs, **kwargs)
    copies = dict(zip(named, _Replicate.apply(*named.values()), strict=True))
    return torch.func.functional_call(module, copies, inputs, kwargs)


class _Replicate(torch.autograd.Function):
    """The copies on the first GPU are the parameters themselves; their gradients are summed with those of the others."""

    @staticmethod
    def forward(ctx: Any, *parameters: Any) -> Any:
        return tuple(parameter.view_as(parameter) for parameter in parameters)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        sums: list[Any] = []
        chunk: list[Any] = []
        for gradient in gradients:
            size = sum(g.numel() * g.element_size() for g in chunk)
            if chunk and (
                chunk[0].dtype != gradient.dtype or size + gradient.numel() * gradient.element_size() > _CHUNK
            ):
                sums += _summed(chunk)
                chunk = []
            chunk.append(gradient)
        return tuple(sums + _summed(chunk))


def _summed(gradients: list[Any]) -> list[Any]:
    """Return the sums over all GPUs, which lie in one buffer."""
    flat = (
        torch.cat([gradient.reshape(-1) for gradient in gradients]) if len(gradients) > 1 else gradients[0].reshape(-1)
    )
    result = torch.empty_like(flat)
    parts, at = [], 0
    for gradient in gradients:
        parts.append(result[at : at + gradient.numel()].view(gradient.shape))
        at += gradient.numel()
    return parts


class _Gather(torch.autograd.Function):
    """The outputs of all GPUs, on the first; a number of each becomes a vector."""

    @staticmethod
    def forward(ctx: Any, part: Any, count: int, dim: int, total: int | None) -> Any:
        ctx.form, ctx.dim = part.shape, dim
        if part.dim() == 0:
            return part.new_empty((count,))
        shape = list(part.shape)
        even = total is not None and -(-total // count) == shape[dim]
        shape[dim] = total if even and total is not None else shape[dim] * count
        return part.new_empty(shape)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        if len(ctx.form) == 0:
            return gradient[0], None, None, None
        return gradient.narrow(ctx.dim, 0, ctx.form[ctx.dim]), None, None, None
