"""Layers of einops for torch."""

from __future__ import annotations

from typing import Any

import torch

from .. import reduce


class Reduce(torch.nn.Module):
    """Reduces in the forward pass.

    Args:
        pattern: The axes before and after. reduction: How. axes_lengths: Sizes of axes.
    """

    def __init__(self, pattern: str, reduction: Any, **axes_lengths: int) -> None:
        super().__init__()
        self.pattern, self.reduction, self.axes_lengths = pattern, reduction, axes_lengths

    def forward(self, input: torch.Tensor) -> Any:
        """Return the tensor in its new form."""
        return reduce(input, self.pattern, self.reduction, **self.axes_lengths)


class Rearrange(Reduce):
    """Rearranges in the forward pass."""

    def __init__(self, pattern: str, **axes_lengths: int) -> None:
        super().__init__(pattern, "rearrange", **axes_lengths)
