"""A gradient scaler with bfloat16.

## What it does
Looks for a `GradScaler` that is on, around a loss that was computed in bfloat16.

## Why
bfloat16 has the range of float32, so there is nothing to scale.
The scaler still multiplies the loss, divides all gradients, checks them for infinities and waits for the GPU once per step.

## Fix
Make the scaler only for float16: `GradScaler("cuda", enabled=dtype == torch.float16)`.

## When to ignore
When the skipping of steps with infinite gradients is what is wanted.

## References
- PyTorch documentation, "Automatic Mixed Precision package"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.backward_graph import graph
from preflight.check.queries.precision import enabled, region_of, scaled_by, scalers
from preflight.check.rule import Rule
from preflight.source.training import loss_of
from preflight.source.values import Obj
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="scaler-with-bfloat16",
    code="AMP011",
    severity="info",
    confidence="likely",
    needs=("training_loop", "scaler"),
    layer="D",
    tags=("precision",),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2).cuda()
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.cuda.amp.GradScaler()
for x, y in data:
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
""",
    """
import torch
from torch.amp import GradScaler as Scaler, autocast as cast
class Trainer:
    def __init__(self):
        self.net = torch.nn.Linear(4, 4)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.scaler = Scaler("cuda")
    @cast("cuda", dtype=torch.bfloat16)
    def loss(self, x):
        return self.net(x).mean()
    def update(self, x):
        self.opt.zero_grad()
        self.scaler.scale(self.loss(x)).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
t = Trainer()
for x in data:
    t.update(x)
""",
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--dtype", default="bf16")
args = parser.parse_args()
kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
net = torch.nn.Linear(4, 1)
opt = torch.optim.Adam(net.parameters())
scaler = torch.amp.GradScaler()
for x in data:
    opt.zero_grad()
    with torch.autocast("cuda", kinds[args.dtype]):
        loss = net(x).mean()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
""",
)

GOOD = (
    """
import torch
from torch import nn
dtype = "bfloat16"
model = nn.Linear(10, 2).cuda()
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.cuda.amp.GradScaler(enabled=(dtype == "float16"))
for x, y in data:
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=getattr(torch, dtype)):
        loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2).cuda()
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.cuda.amp.GradScaler()
for x, y in data:
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find scaled backwards of losses that were computed in bfloat16."""
    for loop in context.reading.loops:
        for backward in loop.backwards:
            scaler = scaled_by(context, backward)
            if (
                scaler is None
                or scaler not in scalers(context)
                or enabled(scaler) is not True
                or backward.context.shadow
            ):
                continue
            inside = [
                r
                for v in graph(loss_of(backward))
                if isinstance(v, Obj) and v.kind in ("call", "op") and (r := region_of(v.context))
            ]
            if not inside or any(r.dtype != "bfloat16" or r.enabled is not True for r in inside):
                continue
            yield context.finding(
                RULE,
                scaler,
                "a GradScaler is used with bfloat16, which has the range of float32 and needs none",
                evidence=[Evidence("dtype of autocast", "bfloat16"), Evidence("scaler", "on")],
                fix=Fix(
                    title="use no scaler with bfloat16",
                    safe=False,
                    instruction="make the scaler with enabled=False, or call backward() and step() directly",
                    expected="no scaling, no check for infinities, one wait for the GPU less per step",
                ),
                related=[(backward, "gradients are computed here")],
            )
            break
