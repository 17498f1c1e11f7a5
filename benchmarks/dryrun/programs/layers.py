"""Layers of ``decoder.py``: the norm, and linear layers with LoRA, in bfloat16 or in four bits."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DROPOUT = 0.05
settings: dict[str, Any] = {"quant": None}
"""``quant``: None, ``nf4`` or ``nf4-dq``; the program sets it before it makes the model."""


def linear(inputs: int, outputs: int, bias: bool) -> nn.Module:
    """Return a frozen layer's weights, in as many bits as the settings say."""
    if settings["quant"] is None:
        return nn.Linear(inputs, outputs, bias=bias)
    import bitsandbytes

    nested = settings["quant"] == "nf4-dq"
    layer = bitsandbytes.nn.Linear4bit(
        inputs, outputs, bias, torch.bfloat16, compress_statistics=nested, quant_type="nf4", device=DEVICE
    )
    layer.given_dtype = torch.float16  # Lightning turns weights to it before it quantises them
    return Kept(layer)


class Kept(nn.Module):
    """A layer in four bits as bitsandbytes had it before 0.43.2.

    Its autograd function kept the input as an attribute (``ctx.tensors = (A, B)``), which nothing read and which lives as
    long as the graph's node: till the loss of the next step takes the name of this one's.
    """

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the product; its node holds the input."""
        result = self.layer(x)
        if result.grad_fn is not None:
            result.grad_fn.metadata["kept"] = x
        return result


class RMSNorm(nn.Module):
    """The norm, computed in fp32 step by step."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the normed tokens."""
        dtype = x.dtype
        x = x.float()
        normed = x * torch.rsqrt(torch.mean(x * x, dim=-1, keepdim=True) + 1e-5)
        return (normed * self.weight.float()).to(dtype)


class Linear(nn.Module):
    """A linear layer, with LoRA where a rank is given."""

    def __init__(self, inputs: int, outputs: int, bias: bool, rank: int | None) -> None:
        super().__init__()
        self.linear = linear(inputs, outputs, bias)
        self.rank = rank
        if rank:
            self.a, self.b = nn.Parameter(torch.empty(rank, inputs)), nn.Parameter(torch.empty(outputs, rank))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return W x, and B A x if there are adapters."""
        plain = self.linear(x)
        if not self.rank:
            return plain
        thin = F.dropout(x, DROPOUT, self.training) @ self.a.transpose(0, 1) @ self.b.transpose(0, 1)
        return plain + thin * 2.0


class Projection(nn.Module):
    """Queries, keys and values at once, with LoRA for some of them."""

    def __init__(
        self, width: int, parts: tuple[int, int, int], bias: bool, rank: int | None, chosen: list[bool]
    ) -> None:
        super().__init__()
        self.linear = linear(width, sum(parts), bias)
        self.rank, self.all = rank if rank and any(chosen) else None, all(chosen)
        self.equal = len(set(parts)) == 1
        if self.rank:
            self.shapes = [part for part, use in zip(parts, chosen, strict=True) if use]
            self.a = nn.Parameter(torch.empty(self.rank * len(self.shapes), width))
            self.b = nn.Parameter(torch.empty(sum(self.shapes), self.rank))
            ends = [sum(parts[: at + 1]) for at in range(3)]
            places = [range(end - part, end) for end, part, use in zip(ends, parts, chosen, strict=True) if use]
            self.register_buffer("places", torch.tensor([i for place in places for i in place]), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the three, side by side."""
        plain = self.linear(x)
        if not self.rank:
            return plain
        after = F.linear(F.dropout(x, DROPOUT, self.training), self.a).transpose(-2, -1)
        weight = self.b.unsqueeze(-1)
        if self.equal:
            wide = F.conv1d(after, weight, groups=len(self.shapes))
        else:
            inputs, weights = after.chunk(len(self.shapes), dim=1), weight.split(self.shapes)
            wide = torch.cat([F.conv1d(i, w) for i, w in zip(inputs, weights, strict=True)], dim=1)
        wide = wide.transpose(-2, -1) * 2.0
        if not self.all:
            wide = wide.new_zeros(*wide.shape[:-1], plain.shape[-1]).index_copy_(-1, self.places.clone(), wide)
        return plain + wide
