"""The first optimizer step allocates states that do not fit.

## What it does
Finds runs whose forward and backward pass fit, and whose optimizer states do not: they appear when the optimizer steps for the first time.

## Why
Adam keeps two numbers per parameter: 8 bytes in fp32, twice the weights.
The script survives the first forward and backward pass, and dies at the end of step 0.

## Fix
An 8-bit or factored optimizer, sharded states (ZeRO 1, FSDP), or `foreach=False` when the temporaries of the step are what does not fit.

## When to ignore
When the states are offloaded by code that cannot be followed.

## References
- Dettmers et al., "8-bit Optimizers via Block-wise Quantization", 2022
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context
from preflight.check.queries.memory_limits import overflow, runs_out_in
from preflight.check.rule import Example, Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="optimizer-states-exceed-device",
    code="MEM003",
    severity="error",
    confidence="certain",
    needs=("capacity", "memory"),
    layer="V",
    tags=("memory", "optimizer"),
)

_NET = """
import torch
import torch.nn as nn
from torch.utils.data import DataLoader
class Net(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
def batches(size):
    return DataLoader(dataset, batch_size=size, shuffle=True)
"""
_LOOP = """
for x, y in batches(4):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x.cuda()), y.cuda()).backward()
    optimizer.step()
"""

BAD = (
    Example(
        _NET + "model = Net(8192, 24).cuda()\noptimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)" + _LOOP,
        gpu="t4",
    ),
    Example(
        _NET
        + """
from torch.optim import Adam as Optimizer
def prepare(net):
    return Optimizer(net.parameters(), lr=1e-4)
model = Net(8192, 24).cuda()
optimizer = prepare(model)
"""
        + _LOOP,
        gpu="V100-SXM2-16GB",
    ),
    Example(
        _NET
        + """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, default=8192)
parser.add_argument("--depth", type=int, default=24)
args = parser.parse_args()
model = Net(args.width, args.depth).cuda()
optimizer = torch.optim.NAdam(model.parameters(), lr=1e-4)
"""
        + _LOOP,
        gpu="t4",
    ),
)

GOOD = (
    Example(
        _NET + "model = Net(8192, 24).cuda()\noptimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)" + _LOOP,
        gpu="h100",
    ),
    Example(
        _NET + "model = Net(8192, 20).cuda()\noptimizer = torch.optim.SGD(model.parameters(), lr=1e-4)" + _LOOP,
        gpu="t4",
    ),
)


def check(context: Context) -> Iterator[Finding]:
    """Find runs whose optimizer states do not fit."""
    if runs_out_in(context, "optimizer"):
        yield from overflow(context, RULE, "the first optimizer step allocates its states: the run")
