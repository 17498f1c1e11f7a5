"""`backward()` runs inside the autocast block.

## What it does
Looks for a backward (and a step) inside an autocast block.

## Why
Backward already runs each operation in the dtype that autocast chose for its forward; PyTorch recommends leaving the block before.
What the block can still change is code that runs during backward in its own right: recomputed activations, custom functions, hooks.

## Fix
End the block after the loss.

## When to ignore
When everything inside backward is PyTorch's own.

## References
- PyTorch documentation, `torch.autocast`: "Backward passes under autocast are not recommended"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.precision import region_of
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="backward-inside-autocast",
    code="AMP009",
    severity="info",
    confidence="certain",
    needs=("training_loop",),
    layer="D",
    tags=("precision",),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for x, y in data:
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
    optimizer.step()
""",
    """
import torch
from torch.amp import autocast as cast
net = torch.nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
def update(loss):
    opt.zero_grad()
    loss.backward()
    opt.step()
for x in data:
    with cast("cuda", torch.bfloat16):
        update(net(x).mean())
""",
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--dtype", default="bfloat16")
args = parser.parse_args()
context = torch.autocast("cuda", dtype=getattr(torch, args.dtype))
net = torch.nn.Linear(4, 1)
opt = torch.optim.Adam(net.parameters())
with context:
    for x in data:
        opt.zero_grad()
        net(x).mean().backward()
        opt.step()
""",
)

GOOD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for x, y in data:
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for x, y in data:
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=False):
        nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find backwards inside autocast."""
    for loop in context.reading.loops:
        for backward in loop.backwards:
            region = region_of(backward.context)
            if region is None or region.enabled is None:
                continue
            yield context.finding(
                RULE,
                backward,
                "backward() runs inside the autocast block, which PyTorch advises against",
                evidence=[Evidence("autocast at backward()", region.dtype or "on")],
                fix=Fix(
                    title="leave the autocast block before backward()",
                    safe=False,
                    instruction="end the with block after the loss is computed",
                    expected="recomputation and custom functions run in the dtype of their forward",
                ),
                related=[(region.manager, "autocast is entered here")],
            )
