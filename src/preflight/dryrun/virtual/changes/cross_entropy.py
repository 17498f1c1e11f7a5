"""Cross-entropy in chunks of rows: neither the logits in fp32 nor their softmax ever exist as a whole.

What is kept for the backward pass are the logits as they came; every chunk's softmax is computed there again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from preflight.dryrun.virtual.changes import Change, Run

ROWS = 1024
"""Rows of a chunk."""
_LEAST = 1 << 20
"""Logits with fewer elements are left alone: their loss is no part of the peak."""


class Chunked(torch.autograd.Function):
    """The sum of the losses of all rows."""

    @staticmethod
    def forward(ctx: Any, logits: Any, target: Any, ignored: int, smoothing: float, entropy: Any) -> Any:
        """Add up the chunks."""
        ctx.save_for_backward(logits, target)
        ctx.how = (ignored, smoothing, entropy)
        total = None
        for rows, wanted in zip(logits.split(ROWS), target.split(ROWS), strict=True):
            part = entropy(rows.float(), wanted, ignore_index=ignored, reduction="sum", label_smoothing=smoothing)
            total = part if total is None else total + part
        return total

    @staticmethod
    def backward(ctx: Any, *given: Any) -> Any:
        """Compute each chunk again for its gradient."""
        logits, target = ctx.saved_tensors
        ignored, smoothing, entropy = ctx.how
        gradient = torch.empty_like(logits)
        for at, rows, wanted in zip(gradient.split(ROWS), logits.split(ROWS), target.split(ROWS), strict=True):
            with torch.enable_grad():
                again = rows.detach().float().requires_grad_()
                part = entropy(again, wanted, ignore_index=ignored, reduction="sum", label_smoothing=smoothing)
            at.copy_(torch.autograd.grad(part, again, given[0])[0])
        return gradient, None, None, None, None


def install(change: Change, run: Run) -> None:
    """Replace ``torch.nn.functional.cross_entropy`` where it compares rows of logits with classes."""
    plain = functional.cross_entropy

    def cross_entropy(
        input: Any,
        target: Any,
        weight: Any = None,
        size_average: Any = None,
        ignore_index: int = -100,
        reduce: Any = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> Any:
        old = weight is not None or size_average is not None or reduce is not None or reduction == "none"
        if old or input.dim() != 2 or target.dim() != 1 or input.numel() < _LEAST or not input.is_cuda:
            return plain(input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing)
        change.did(f"losses over {input.shape[1]} classes")
        with torch.autocast("cuda", enabled=False):
            total = Chunked.apply(input, target, ignore_index, label_smoothing, plain)
        return total / (target != ignore_index).sum() if reduction == "mean" else total

    functional.cross_entropy = cross_entropy
