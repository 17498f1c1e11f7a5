"""What CUDA runs in one kernel and a CPU takes apart, with the bytes of CUDA's kernel and zeros for numbers.

Sizes are read from PyTorch's source (``cudnn/RNN.cpp``, ``native/cuda/RNN.cu``, ``native/transformers/cuda/attention.cu``),
but for the reserve space of cuDNN, which is that of ``engine/recurrent.py`` on both sides: the comparison says nothing of it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from preflight.dryrun.virtual.engine.attention import choose
from preflight.dryrun.virtual.reserve import reserved_values

CAPABILITY = (9, 0)
_attention = F.scaled_dot_product_attention


def install() -> None:
    """Take the place of what a CPU takes apart."""
    torch._VF.lstm = _layers("lstm")
    torch._VF.gru = _layers("gru")
    torch._VF.lstm_cell = _lstm_cell
    F.scaled_dot_product_attention = _as_on_cuda


class _Layers(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, hx: Any, cx: Any, kept: int, directions: int, *weights: Any) -> Any:
        """Make the answer, the last states and the reserve space."""
        out = x.new_zeros((*x.shape[:-1], directions * hx.shape[-1]))
        hy, cy = torch.zeros_like(hx), None if cx is None else torch.zeros_like(cx)
        reserve = torch.zeros(x.numel() // x.shape[-1] * kept * x.element_size(), dtype=torch.uint8)
        ctx.save_for_backward(x, hx, out, reserve, *weights)
        ctx.cell = cx
        return (out, hy) if cy is None else (out, hy, cy)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Make the gradients; those of the weights lie in one buffer, as the weights do."""
        x, hx, _, _, *weights = ctx.saved_tensors
        flat, parts, at = x.new_zeros(sum(weight.numel() for weight in weights)), [], 0
        for weight in weights:
            parts.append(flat[at : at + weight.numel()].view(weight.shape))
            at += weight.numel()
        wanted = ctx.needs_input_grad
        return (
            torch.zeros_like(x) if wanted[0] else None,
            torch.zeros_like(hx) if wanted[1] else None,
            torch.zeros_like(ctx.cell) if wanted[2] else None,
            None,
            None,
            *parts,
        )


def _layers(name: str) -> Any:
    def run(x: Any, hx: Any, weights: Any, biases: bool, layers: int, dropout: float, train: bool, both: bool,
            batch_first: bool) -> Any:  # fmt: skip
        state, cell = hx if isinstance(hx, tuple) else (hx, None)
        directions, hidden = 1 + both, state.shape[-1]
        kept = reserved_values(name, layers, directions, hidden, hidden)
        return _Layers.apply(x, state, cell, kept if train else 0, directions, *weights)

    return run


class _Cell(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, h: Any, cell: Any, first: Any, second: Any) -> Any:
        """Make the two states, and keep the four gates; both products too, which a second backward pass would need.

        PyTorch's derivatives.yaml names them in the formula of ``_thnn_fused_lstm_cell``, and what it names is saved.
        """
        hy, cy, gates = torch.zeros_like(cell), torch.zeros_like(cell), torch.zeros_like(x)
        ctx.save_for_backward(x, h, cell, cy, gates)
        return hy, cy

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Make one gradient for both products and one for both biases."""
        _, _, cell, _, gates = ctx.saved_tensors
        made, before = torch.zeros_like(gates), torch.zeros_like(cell)
        bias = made.sum(0)
        return made, made, before, bias, bias


def _lstm_cell(x: Any, hx: Any, w_x: Any, w_h: Any, b_x: Any, b_h: Any) -> Any:
    return _Cell.apply(x @ w_x.t(), hx[0] @ w_h.t(), hx[1], b_x, b_h)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any, mask: Any) -> Any:
        """Make the answer, and keep the sums of every row, padded to 32."""
        batch, heads, length, _ = q.shape
        out = q.new_zeros((batch, length, heads, v.shape[-1])).transpose(1, 2)
        sums = torch.zeros((batch, heads, -(-length // 32) * 32 if any(ctx.needs_input_grad) else 0))
        ctx.save_for_backward(q, k, v, mask, out, sums)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        """Make the three gradients."""
        return (*(torch.zeros_like(tensor.transpose(1, 2)).transpose(1, 2) for tensor in ctx.saved_tensors[:3]), None)


def _as_on_cuda(q: Any, k: Any, v: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
                scale: float | None = None, enable_gqa: bool = False) -> Any:  # fmt: skip
    """Take one kernel also with dropout, where the CPU has one for attention without it alone, and none where CUDA has none."""
    kind = choose(q, k, v, attn_mask, CAPABILITY, dropout_p, enable_gqa)
    if kind != "math" and dropout_p:
        return _Attention.apply(q, k, v, attn_mask)
    if kind == "math" and enable_gqa and attn_mask is None:
        k, v = (t.repeat_interleave(q.shape[-3] // t.shape[-3], -3) for t in (k, v))
        return torch.ops.aten._scaled_dot_product_attention_math(
            q, k, v, None, dropout_p, is_causal, None, scale=scale
        )[0]
    return _attention(q, k, v, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
