"""A long sum has its result in fp16.

## What it does
Finds sums over an axis of thousands of elements in training forwards whose result is fp16: of squares from 2,048 elements on, of others from 16,384.

## Why
The largest number of fp16 is 65,504.
The sum of 4,096 squares overflows when they are 16 on average, activations of 4, and the result is infinite whatever precision the kernel adds in.
A result near the top has steps of 32: small terms are lost.

## Fix
Give the sum `dtype=torch.float32`, take the mean instead, or compute the stretch outside of half precision.

## When to ignore
When the terms are known to be small, as probabilities are.

## References
- PyTorch documentation, "Autocast Op Reference": sum runs in fp32 under autocast
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="long-sum-in-fp16",
    code="NUM009",
    severity="warning",
    confidence="possible",
    layer="V",
    tags=("numerics", "fp16", "dry-run"),
)
_LARGEST, _LONG = 65504, 16384

_NET = """
import torch
net = torch.nn.Linear(16, 4096).cuda().half()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
"""
_LOOP = """
for _ in range(4):
    optimizer.zero_grad()
    measure(net(torch.randn(8, 16, device="cuda").half())).backward()
    optimizer.step()
"""

BAD = (
    f"""{_NET}
def measure(h):
    return (h * torch.rsqrt(h.pow(2).sum(-1, keepdim=True) + 1e-5)).mean()
{_LOOP}""",
    f"""{_NET}
def measure(h):
    return getattr(torch, "sum")(h) / h.numel()
{_LOOP}""",
    f"""{_NET}
class Norm(torch.nn.Module):
    def forward(self, h):
        return torch.square(h).sum(dim=(0, 1)).sqrt()
measure = Norm()
{_LOOP}""",
)

GOOD = (
    f"""{_NET}
def measure(h):
    total = h.pow(2).sum(-1, keepdim=True, dtype=torch.float32)
    return (h * torch.rsqrt(total + 1e-5)).mean() + h.pow(2).mean() + h[:, :64].sum()
{_LOOP}""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find long sums with results in fp16."""
    told: set[str] = set()
    for item in run.seen("long sum"):
        length, squares = item.data["length"], item.data["squares"]
        if item.line in told or (not squares and length < _LONG):
            continue
        told.add(item.line)
        what = "squares" if squares else "numbers"
        limit = _LARGEST / length
        yield run.finding(
            RULE,
            item.line,
            f"the sum of {length} {what} has its result in fp16: it is infinite when they are above {limit:.2g} on average",
            evidence=[
                seen("elements of each sum", length),
                seen("shape", str(tuple(item.data["shape"]))),
            ],
            fix=Fix(
                title="sum in fp32",
                instruction="pass dtype=torch.float32 to sum, or take the mean",
                expected="no overflow",
            ),
        )
