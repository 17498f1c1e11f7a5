"""Composite operators that PyTorch takes apart by the device: sent where CUDA would send them."""

from __future__ import annotations

from typing import Any

import torch

from preflight.dryrun.virtual.engine.operators import SPECIAL

_kept: list[Any] = []


def install(capability: tuple[int, int]) -> None:
    """Register attention and dropout for the virtual GPU.

    Args:
        capability: Compute capability of the GPU, which decides between the kernels of attention.
    """
    library = torch.library.Library("aten", "IMPL")
    _kept.append(library)
    for name, function in (("scaled_dot_product_attention", _attention(capability)), ("dropout", _dropout)):
        library.impl(name, function, "AutogradPrivateUse1")
        # In inference mode there is no autograd key, and the operator arrives whole.
        SPECIAL[name] = lambda gpu, func, args, kwargs, function=function: function(*args, **kwargs)
    for name in ("softmax", "log_softmax"):
        library.impl(f"{name}.int", _soft(getattr(torch.ops.aten, f"_{name}")), "AutogradPrivateUse1")
    library.impl("ctc_loss.Tensor", _ctc_loss, "AutogradPrivateUse1")
    for name in WHOLE:
        if hasattr(torch.ops.aten, name):
            library.impl(name, _unreachable, "PrivateUse1")


def _attention(capability: tuple[int, int]) -> Any:
    """Return attention that calls the kernel which a GPU of that capability would take."""

    def attention(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Any:
        kind = choose(query, key, value, attn_mask, capability, dropout_p, enable_gqa)
        if kind == "flash":
            return _flash(query, key, value, dropout_p, is_causal, scale)
        if enable_gqa and key.shape[-3] != query.shape[-3]:
            times = query.shape[-3] // key.shape[-3]
            key, value = key.repeat_interleave(times, -3), value.repeat_interleave(times, -3)
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill_(
                attn_mask.logical_not(), float("-inf")
            )
        if kind == "math":
            return torch.ops.aten._scaled_dot_product_attention_math(
                query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale
            )[0]
        graph = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
        if attn_mask is not None:
            attn_mask = attn_mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
        return torch.ops.aten._scaled_dot_product_efficient_attention(
            query, key, value, attn_mask, graph, dropout_p, is_causal, scale=scale
        )[0]

    return attention


def _flash(query: Any, key: Any, value: Any, dropout: float, causal: bool, scale: float | None) -> Any:
    """Call the flash kernel: heads whose width is no multiple of 8 are filled up, and cut again."""
    width = query.shape[-1]
    if width % 8:
        query, key, value = (torch.nn.functional.pad(t, (0, 8 - width % 8)) for t in (query, key, value))
        scale = scale if scale is not None else width**-0.5
    found = torch.ops.aten._scaled_dot_product_flash_attention(query, key, value, dropout, causal, False, scale=scale)[
        0
    ]
    return found[..., :width] if width % 8 else found


def _dropout(input: Any, p: float, train: bool) -> Any:
    if p == 0 or not train or input.numel() == 0:
        return input
    return torch.native_dropout(input, p, train)[0]


WHOLE = ("silu_backward", "mish_backward", "_fused_rms_norm")
"""Operators that CUDA runs in one kernel, while PyTorch takes them apart for a device that it does not know.

Source: ``aten/src/ATen/native/native_functions.yaml``, entries with both ``CUDA`` and ``CompositeImplicitAutograd``.
That a kernel is registered is enough: fake tensors take their shapes from elsewhere.
"""


def _ctc_loss(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0,
              reduction: int = 1, zero_infinity: bool = False) -> Any:  # fmt: skip
    """Read the lengths on the host, as for tensors of no special class (``aten/src/ATen/native/LossCTC.cpp``)."""
    lengths = [given.cpu().long().tolist() for given in (input_lengths, target_lengths)]
    return torch.ops.aten.ctc_loss.IntList(log_probs, targets, *lengths, blank, reduction, zero_infinity)


def _unreachable(*args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError("this operator has no numbers on the virtual GPU")


def _soft(whole: Any) -> Any:
    """Return softmax or its logarithm as CUDA runs it: from fp16 to fp32 without a copy of the input.

    Source: ``aten/src/ATen/native/SoftMax.cpp``.
    """

    def run(input: Any, dim: int, dtype: torch.dtype | None = None) -> Any:
        if input.dtype == torch.float16 and dtype == torch.float32:
            return whole(input, dim, True)
        return whole(input if dtype is None else input.to(dtype), dim, False)

    return run


def choose(query: Any, key: Any, value: Any, mask: Any, capability: tuple[int, int], dropout: float = 0.0,
           grouped: bool = False) -> str:  # fmt: skip
    """Return the kernel that CUDA would take: ``flash``, ``efficient`` or ``math``.

    Source: ``aten/src/ATen/native/transformers/cuda/sdp_utils.cpp``: flash needs half precision, sm80, equal head sizes
    up to 256 and no mask; the memory-efficient one takes fp32 and masks, and no head sizes that are not multiples of 4
    (8 in half precision). The memory-efficient one does not share keys among heads (``grouped``).
    """
    flags = torch.backends.cuda
    half = query.dtype in (torch.float16, torch.bfloat16)
    if query.dim() != 4 or key.dim() != 4:
        return "math"
    width = query.shape[-1]
    plain = width == value.shape[-1] and width <= 256 and mask is None
    if capability in ((8, 6), (8, 9), (12, 0)) and any(t.requires_grad for t in (query, key, value)):
        # Too little shared memory for the backward pass.
        plain = plain and not 192 < width <= 224 and not (width > 224 and dropout > 0)
    if half and plain and capability >= (8, 0) and flags.flash_sdp_enabled():
        return "flash"
    aligned = width % (8 if half else 4) == 0 and value.shape[-1] % (8 if half else 4) == 0
    usable = half or query.dtype == torch.float32
    if grouped and key.shape[-3] != query.shape[-3]:
        usable = False
    if query.dtype == torch.bfloat16 and capability < (8, 0):
        usable = False
    if usable and aligned and flags.mem_efficient_sdp_enabled() and not (mask is not None and mask.requires_grad):
        return "efficient"
    return "math"
