"""Autocast encloses the loss, not the model.

## What it does
Looks for an autocast block that holds the loss function while the forward pass of the model runs outside of it.

## Why
The time and the memory are in the model: its matrix products run in float32, at a fraction of the speed that autocast is there for (an A100 multiplies matrices 16 times faster in bfloat16 than in float32 without TF32).
Losses are computed in float32 under autocast anyway.

## Fix
Move the call of the model into the block.

## When to ignore
When the model enters autocast in its own forward in code that cannot be seen.

## References
- PyTorch documentation, `torch.autocast`
- NVIDIA A100 datasheet: 312 TFLOP/s in bfloat16, 19.5 TFLOP/s in float32
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.backward_graph import graph
from preflight.check.queries.precision import region_of, regions
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.training import loss_of
from preflight.source.values import Obj, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="autocast-around-loss-only",
    code="AMP005",
    severity="warning",
    confidence="likely",
    needs=("training_loop", "forward"),
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
    out = model(x)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(out, y)
    loss.backward()
    optimizer.step()
""",
    """
import torch
import torch.nn as nn
from torch.amp import autocast as cast
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
    def forward(self, x):
        return self.a(x).relu()
net, criterion = Net(), nn.MSELoss()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
def cost(out, y):
    with cast("cuda", torch.bfloat16):
        return criterion(out, y)
for x, y in data:
    opt.zero_grad()
    cost(net(x), y).backward()
    opt.step()
""",
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--amp", type=bool, default=True)
args = parser.parse_args()
net = torch.nn.Linear(4, 1).to("cuda")
opt = torch.optim.Adam(net.parameters())
for x, y in data:
    opt.zero_grad()
    predicted = net(x)
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=args.amp):
        loss = torch.nn.functional.mse_loss(predicted, y)
    loss.backward()
    opt.step()
""",
)

GOOD = (
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
    def forward(self, x):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return self.a(x).relu()
model = Net()
optimizer = torch.optim.AdamW(model.parameters())
for x, y in data:
    optimizer.zero_grad()
    out = model(x)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(out, y)
    loss.backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
body, head = nn.Linear(10, 10).cuda(), nn.Linear(10, 2).cuda()
optimizer = torch.optim.AdamW(head.parameters())
for x, y in data:
    optimizer.zero_grad()
    features = body(x)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(head(features), y)
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
    with torch.autocast("cuda", dtype=torch.bfloat16):
        out = model(x)
    with torch.autocast("cuda", enabled=False):
        loss = nn.functional.cross_entropy(out.float(), y)
    loss.backward()
    optimizer.step()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find losses under autocast whose modules are all outside."""
    for loop in context.reading.loops:
        for backward in loop.backwards:
            found = _split(context, backward)
            if found is None or backward.context.shadow:
                continue
            forward, loss = found
            made = context.reading.event_of(loss)
            yield context.finding(
                RULE,
                made or backward,
                "autocast encloses only the loss: the model runs outside of it, in float32",
                evidence=[
                    Evidence("calls of modules inside the autocast block", 0),
                    Evidence("where the model is called", "outside"),
                ],
                fix=Fix(
                    title="move the call of the model into the autocast block",
                    safe=False,
                    instruction="call the model inside the autocast block; backward stays outside",
                    expected="matrix products run in 16 bit",
                ),
                related=[(forward, "the model is called here")],
            )
            break


def _split(context: Context, backward: Event) -> tuple[Obj, Obj] | None:
    outside: Obj | None = None
    loss: Obj | None = None
    for value in graph(loss_of(backward)):
        if not isinstance(value, Obj) or value.kind != "call":
            continue
        inside = region_of(value.context)
        if value.name == "()" and context.roles.of(value.receiver) != "criterion":
            holder = settle(value.receiver) if value.receiver is not None else None
            if regions(value.context) or not isinstance(holder, Obj):
                return None
            outside = outside or value
        elif inside is not None and (value.name.startswith("torch.nn.functional.") or value.name == "()"):
            loss = loss or value
        elif value.name == "?" or value.name.startswith((".forward", ".train_step", ".loss")):
            return None
    return (outside, loss) if outside is not None and loss is not None else None
