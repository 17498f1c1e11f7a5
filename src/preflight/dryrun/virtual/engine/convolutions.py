"""Convolutions give their results in the layout that cuDNN gives: channels last where the image or the filters are.

Source: ``cudnn_conv_suggest_memory_format`` in ``aten/src/ATen/native/ConvUtils.h``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from preflight.dryrun.virtual.engine.gpu import VirtualGpu


def last(tensor: Any) -> bool:
    """Whether a four-dimensional tensor has its channels last."""
    return (
        tensor.dim() == 4
        and bool(tensor.is_contiguous(memory_format=torch.channels_last))
        and not bool(tensor.is_contiguous())
    )


def _laid_out(tensor: Any) -> Any:
    if tensor is None or tensor.dim() != 4 or tensor.is_contiguous(memory_format=torch.channels_last):
        return tensor
    return torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.fake_device, memory_format=torch.channels_last)


def forward(gpu: VirtualGpu, func: Any, args: Any, kwargs: Any) -> Any:
    """Run ``aten::convolution``."""
    if not (last(args[0]) or last(args[1])):
        return NotImplemented
    with gpu.fake:
        return _laid_out(func(*args, **kwargs))


def backward(gpu: VirtualGpu, func: Any, args: Any, kwargs: Any) -> Any:
    """Run ``aten::convolution_backward``."""
    if not (last(args[1]) or last(args[2])):
        return NotImplemented
    with gpu.fake:
        image, filters, bias = func(*args, **kwargs)
        return _laid_out(image), _laid_out(filters), bias
