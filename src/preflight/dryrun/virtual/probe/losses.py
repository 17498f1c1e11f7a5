"""Looks at losses over classes: what they are given, and the numbers that they give."""

from __future__ import annotations

import math
from typing import Any

import torch

from preflight.dryrun.virtual import private

FUNCTIONS = frozenset(("cross_entropy", "nll_loss"))
_MOST = 60


class Losses:
    """The losses of a run.

    Args:
        watch: Knows where the run is, and whether it is the script that runs.

    Attributes:
        targets: Numbers of classes or tokens that losses were given since the last step: (tensor, ignored, logits' shape).
        records: A record of each loss of classes.
        logits: What losses are given while somebody listens, as (predictions, targets); None while nobody does.
    """

    def __init__(self, watch: Any) -> None:
        self.watch, self.progress = watch, watch.progress
        self.targets: list[tuple[Any, int, tuple[int, ...]]] = []
        self.records: list[dict[str, Any]] = []
        self.logits: list[Any] | None = None

    def criterion(self, args: Any, kwargs: Any) -> None:
        """Note whole numbers that a module without parameters is given: they are what a loss compares with."""
        tensors = [leaf for leaf in private.leaves(args, kwargs) if isinstance(leaf, torch.Tensor)]
        if any(t.is_floating_point() and t.requires_grad for t in tensors):
            shape = next(tuple(t.shape) for t in tensors if t.is_floating_point() and t.requires_grad)
            for tensor in tensors:
                if tensor.dtype in (torch.int64, torch.int32) and tensor.numel() > 1:
                    self.targets.append((tensor.detach(), -100, shape))

    def called(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        """A loss over classes was computed."""
        logits = args[0]
        target = kwargs.get("target", args[1] if len(args) > 1 else None)
        if not isinstance(target, torch.Tensor) or target.is_floating_point():
            return
        ignored = kwargs.get("ignore_index", -100)
        weight = kwargs.get("weight", args[2] if len(args) > 2 else None)
        if self.logits is not None:
            self.logits.append((logits, target.detach()))
        if self.watch.muted or not torch.is_grad_enabled() or not logits.requires_grad:
            return
        self.targets.append((target.detach(), ignored, tuple(logits.shape)))
        if len(self.records) >= _MOST:
            return
        with torch.no_grad(), self.watch.quiet():
            counted = target[target != ignored]
            scalar = isinstance(result, torch.Tensor) and result.numel() == 1
            self.records.append(
                {
                    "function": name,
                    "line": self.progress.line(),
                    "step": self.progress.step,
                    "classes": int(logits.shape[1 if logits.dim() > 1 else 0]),
                    "value": finite(float(result)) if scalar else None,
                    "mean": kwargs.get("reduction", "mean") == "mean" and scalar,
                    "weighted": weight is not None,
                    "targets": int(target.numel()),
                    "counted": int(counted.numel()),
                    "different": int(counted.unique().numel()),
                    "lowest": int(counted.min()) if counted.numel() else None,
                    "highest": int(counted.max()) if counted.numel() else None,
                }
            )


def finite(value: float) -> float | None:
    """Return a number, None for what is none or infinite."""
    return value if math.isfinite(value) else None
