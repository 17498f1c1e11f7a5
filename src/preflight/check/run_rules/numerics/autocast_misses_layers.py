"""Autocast does not reach a part of the forward pass.

## What it does
Adds up the multiplications of matrix products, convolutions and attention of all training forwards by the type in which they ran, and finds a share of 10 % or more in float32 or float64 outside of autocast, while others run in half precision under it.

## Why
What runs outside of the `autocast` region stays in float32: it takes two to sixteen times as long on tensor cores and keeps activations of twice the size.
The usual causes are a call of the model, or of one of its parts, before the region begins or after it ends, a second network that was forgotten, and float64 inputs, which autocast leaves as they are.

## Fix
Begin the region before the first call of a network and end it after the loss.
What has to stay in float32 belongs into a region with `enabled=False` inside: that says it is meant.

## When to ignore
When the part is kept in float32 for its numbers.

## References
- PyTorch, "Automatic Mixed Precision package"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.seen import PrecisionSeen

RULE = Rule(
    name="autocast-misses-layers",
    code="AMP012",
    severity="warning",
    confidence="likely",
    layer="V",
    tags=("precision", "dry-run"),
)
_SHARE = 0.1
_HALF = ("float16", "bfloat16")

BAD = (
    """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = torch.nn.Linear(32, 32), torch.nn.Linear(32, 32)
    def features(self, x):
        return self.body(x)
    def forward(self, x):
        return self.head(x)
net = Net().cuda()
opt = torch.optim.AdamW(net.parameters())
for _ in range(8):
    opt.zero_grad()
    x = net.features(torch.randn(4, 32, device="cuda"))
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = net(x).square().mean()
    loss.backward()
    opt.step()
""",
    """
import torch
maker, judge = torch.nn.Linear(32, 32).cuda(), torch.nn.Linear(32, 32).cuda()
one, two = torch.optim.Adam(maker.parameters()), torch.optim.Adam(judge.parameters())
amp = torch.autocast("cuda", dtype=torch.bfloat16)
for _ in range(8):
    with amp:
        made = maker(torch.randn(4, 32, device="cuda"))
    judge.zero_grad()
    judge(made.detach().float()).mean().backward()
    two.step()
    maker.zero_grad()
    judge(made.float()).mean().neg().backward()
    one.step()
""",
    """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(32, 32)
        self.mix = torch.nn.Linear(32, 32).double()
    def forward(self, x):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return self.mix(self.body(x).double())
net = Net().cuda()
opt = torch.optim.AdamW(net.parameters())
for _ in range(8):
    opt.zero_grad()
    net(torch.randn(4, 32, device="cuda")).square().mean().backward()
    opt.step()
""",
)

GOOD = (
    """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.router = torch.nn.Linear(32, 32), torch.nn.Linear(32, 32)
    def forward(self, x):
        x = self.body(x)
        with torch.autocast("cuda", enabled=False):
            return self.router(x.float())
net = Net().cuda()
opt = torch.optim.AdamW(net.parameters())
for _ in range(8):
    opt.zero_grad()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = net(torch.randn(4, 32, device="cuda")).square().mean()
    loss.backward()
    opt.step()
""",
    """
import torch
teacher, net = torch.nn.Linear(32, 32).cuda(), torch.nn.Linear(32, 32).cuda()
opt = torch.optim.AdamW(net.parameters())
for _ in range(8):
    opt.zero_grad()
    x = torch.randn(4, 32, device="cuda")
    with torch.no_grad():
        target = teacher(x)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = torch.nn.functional.mse_loss(net(x), target)
    loss.backward()
    opt.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find a large share of the work outside of autocast, or in a type that it does not touch."""
    rows = [row for row in run.profile.precision if row.what == "product"]
    half = sum(row.multiplications for row in rows if row.autocast == "on" and row.dtype in _HALF)
    missed = [row for row in rows if row.autocast != "off" and row.dtype in ("float32", "float64")]
    count = sum(row.multiplications for row in missed)
    if not half or not run.complete or count < _SHARE * (half + count):
        return
    missed.sort(key=lambda row: -row.multiplications)
    modules = list(dict.fromkeys(row.module or row.line for row in missed))
    named = ", ".join(modules[:4]) + (f" and {len(modules) - 4} more" if len(modules) > 4 else "")
    first = missed[0]
    share = 100 * count / (half + count)
    types = list(dict.fromkeys(row.dtype for row in missed))
    whys = {"float64": "autocast leaves float64 as it is", "float32": "they run outside of the autocast region"}
    why = ", or ".join(whys[dtype] for dtype in types)
    yield run.finding(
        RULE,
        first.line,
        f"{share:.0f} % of the multiplications run in {' and '.join(types)} while the others run in half precision: {why} ({named})",
        evidence=[
            seen("multiplications in half precision", half),
            *(seen(f"multiplications in {dtype}", _work(missed, dtype)) for dtype in types),
            seen("places", len(missed)),
        ],
        fix=Fix(
            title="call them inside the autocast region",
            instruction="begin the region before the first call of a network and end it after the loss; what is meant to stay in "
            "float32 goes into torch.autocast(..., enabled=False) inside the region",
            expected="they run on tensor cores in 16 bit and keep half the activations",
        ),
        related=[(line, f"{calls} products in {dtype}") for (line, dtype), calls in _elsewhere(missed)[:2]],
    )


def _elsewhere(rows: list[PrecisionSeen]) -> list[tuple[tuple[str, str], int]]:
    """Return the other lines than the first with their type, and how many products each made."""
    calls: dict[tuple[str, str], int] = {}
    for row in rows:
        if row.line != rows[0].line:
            calls[row.line, row.dtype] = calls.get((row.line, row.dtype), 0) + row.calls
    return list(calls.items())


def _work(rows: list[PrecisionSeen], dtype: str) -> int:
    return sum(row.multiplications for row in rows if row.dtype == dtype)
