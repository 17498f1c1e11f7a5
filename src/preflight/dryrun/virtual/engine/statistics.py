"""Batch normalisation over several ranks: operators that only CUDA has.

Source: ``torch/nn/modules/_functions.py`` (which of them run) and ``aten/src/ATen/native/cuda/Normalization.cuh``:
statistics of half-precision images are kept in fp32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from preflight.dryrun.virtual.engine.operators import SPECIAL

if TYPE_CHECKING:
    from preflight.dryrun.virtual.engine.gpu import VirtualGpu


def _channels(gpu: VirtualGpu, image: Any, count: int) -> tuple[Any, ...]:
    half = image.dtype in (torch.float16, torch.bfloat16)
    dtype = torch.float32 if half else image.dtype
    with gpu.fake:
        return tuple(torch.empty((image.shape[1],), dtype=dtype, device=gpu.device) for _ in range(count))


def _two(gpu: VirtualGpu, func: Any, args: Any, kwargs: Any) -> Any:
    return _channels(gpu, args[0], 2)


def _like(gpu: VirtualGpu, func: Any, args: Any, kwargs: Any) -> Any:
    with gpu.fake:
        return torch.empty_like(args[0])


def _reduced(gpu: VirtualGpu, func: Any, args: Any, kwargs: Any) -> Any:
    """Sums of the gradient, and the gradients of weight and bias, each where it is asked for."""
    wanted = (args[5], args[5], args[6], args[7])
    sums = _channels(gpu, args[1], sum(map(bool, wanted)))
    found = iter(sums)
    return tuple(next(found) if want else None for want in wanted)


def install() -> None:
    """Register the operators."""
    SPECIAL["batch_norm_stats"] = _two
    SPECIAL["batch_norm_gather_stats"] = SPECIAL["batch_norm_gather_stats_with_counts"] = _two
    SPECIAL["batch_norm_elemt"] = SPECIAL["batch_norm_backward_elemt"] = _like
    SPECIAL["batch_norm_backward_reduce"] = _reduced
