"""A feed-forward layer of width 8192 whose weights are spread over ranks, by Lightning's page on tensor parallelism.

python feedforward.py RANKS. The page's loop takes each step through a closure that clears the gradients first.
"""

from __future__ import annotations

import sys

import torch
from torch import nn
from torch.nn import functional as F

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class FeedForward(nn.Module):
    """Three matrices, one of which gates another."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.w1 = nn.Linear(width, width, bias=False)
        self.w2 = nn.Linear(width, width, bias=False)
        self.w3 = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the layer's answer."""
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


def spread(model: nn.Module, ranks: int) -> None:
    """Give this rank its share of the weights."""
    from torch import distributed
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    distributed.init_process_group("nccl")
    mesh = init_device_mesh("cuda", (ranks,))
    parallelize_module(model, mesh, {"w1": ColwiseParallel(), "w2": RowwiseParallel(), "w3": ColwiseParallel()})


def main(ranks: int) -> None:
    """Train for three steps on rows of random numbers."""
    model = FeedForward(8192)
    if ranks > 1:
        spread(model, ranks)
    model.to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(torch.randn(8, 8192).to(DEVICE)).sum()
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)


if __name__ == "__main__":
    main(int(sys.argv[1]))
