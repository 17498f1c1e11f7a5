"""Autocast to float16 without a gradient scaler.

## What it does
Looks for a loss computed under autocast to float16 whose gradients are computed without a `GradScaler`.
`torch.autocast("cuda")` means float16 unless a dtype is given.

## Why
The smallest number that float16 holds is 2^-24, about 6e-8: smaller gradients of activations become 0 on their way back, and layers stop learning without an error.
A scaler multiplies the loss (by 65,536 at first) so that they survive.

## Fix
Add a `torch.amp.GradScaler`, or use bfloat16, which has the range of float32 and needs no scaler.

## When to ignore
When the loss is scaled by other means.

## References
- PyTorch documentation, "Automatic Mixed Precision package": gradient scaling
- Micikevicius et al., "Mixed Precision Training" (2018)
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.backward_graph import graph
from preflight.check.queries.precision import Region, enabled, region_of, scalers
from preflight.check.queries.updates import managed
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.training import loss_of, same_guards
from preflight.source.values import Known, Obj, options_of, settle
from preflight.vocabulary.finding import Edit, Finding

RULE = Rule(
    name="fp16-autocast-without-scaler",
    code="AMP001",
    severity="error",
    confidence="likely",
    needs=("training_loop", "complete"),
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
    with torch.autocast("cuda"):
        loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
""",
    """
import torch
import torch.nn as nn
from torch.cuda.amp import autocast as cast
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
    @cast()
    def forward(self, x):
        return self.a(x)
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
def step(x):
    opt.zero_grad()
    net(x).mean().backward()
    opt.step()
for x in data:
    step(x)
""",
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--dtype", default="float16", choices=["float16", "bfloat16"])
args = parser.parse_args()
kinds = {"float16": torch.float16, "bfloat16": torch.bfloat16}
net = torch.nn.Linear(4, 1).to("cuda")
opt = torch.optim.Adam(net.parameters())
context = torch.amp.autocast(device_type="cuda", dtype=kinds[args.dtype])
for x in data:
    with context:
        loss = net(x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
)

GOOD = (
    """
import torch
def train_one_epoch(model, batches, optimizer, scaler=None, amp=True):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.cuda.amp.autocast(enabled=amp):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        if scaler is not None and amp:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
""",
    """
import torch
from torch.cuda.amp import autocast
class Trainer:
    def __init__(self, model, optimizer, scaler, half):
        self.model, self.optimizer, self.scaler, self.half = model, optimizer, scaler, half
    def fit(self, batches):
        for x, y in batches:
            self.optimizer.zero_grad()
            with autocast(enabled=self.half):
                loss = torch.nn.functional.cross_entropy(self.model(x), y)
            self.scaler.scale(loss / 4).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
""",
    """
import torch
def train_one_epoch(model, batches, criterion, optimizer, loss_scaler, use_amp=False):
    for x, y in batches:
        if use_amp:
            with torch.cuda.amp.autocast():
                loss = criterion(model(x), y)
        else:
            loss = criterion(model(x), y)
        optimizer.zero_grad()
        if use_amp:
            loss_scaler(loss, optimizer, parameters=model.parameters())
        else:
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
        loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2).cuda()
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda")
def update(loss):
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
for x, y in data:
    optimizer.zero_grad()
    with torch.autocast("cuda"):
        loss = nn.functional.cross_entropy(model(x), y)
    update(loss)
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.AdamW(model.parameters())
for x, y in data:
    optimizer.zero_grad()
    with torch.autocast("cuda", enabled=False):
        loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
with torch.no_grad(), torch.autocast("cuda"):
    model(x)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find backwards of losses that were computed in float16 and not scaled."""
    if managed(context):
        return
    working = [s for s in context.reading.made("scaler") if s not in scalers(context) or enabled(s) is not False]
    if working and (context.trace.calls(".scale") or any(s not in scalers(context) for s in working)):
        return
    for loop in context.reading.loops:
        for backward in loop.backwards:
            region = None if _beside_scaled(context, backward) else _half(context, backward)
            if (
                region is None
                or backward.context.shadow
                or context.roles.of(backward.receiver) in ("accelerator", "fabric", "engine")
            ):
                continue
            made = context.reading.event_of(region.manager)
            yield context.finding(
                RULE,
                backward,
                "the loss is computed in float16 and its gradients without a GradScaler: gradients below 6e-8 become 0",
                confidence="possible" if region.enabled is None else None,
                evidence=[
                    Evidence("dtype of autocast", "float16"),
                    Evidence("smallest positive float16", 2**-24, arithmetic="2^-24"),
                    Evidence("calls of scale() of a scaler", len(context.trace.calls(".scale"))),
                ],
                fix=Fix(
                    title="use bfloat16, or add a GradScaler",
                    safe=False,
                    edits=_edit(context, made) if made is not None else (),
                    instruction="give autocast dtype=torch.bfloat16, or wrap backward and step with a torch.amp.GradScaler",
                    expected="small gradients survive",
                ),
                related=[(made, "autocast to float16")] if made is not None else [],
            )
            break


def _edit(context: Context, made: Event) -> tuple[Edit, ...]:
    if made.name != "torch.autocast" or len(made.args) > 1 or "dtype" in made.kwargs:
        return ()
    return edits(context.add_argument(made, "dtype=torch.bfloat16"))


def _beside_scaled(context: Context, backward: Event) -> bool:
    """Whether the other side of a branch scales the loss: then this one is for a run without half precision."""
    branches = {id(f.node): f.polarity for f in backward.context.frames() if f.kind == "if" and f.node is not None}
    return any(
        frame.kind == "if" and branches.get(id(frame.node), frame.polarity) is not frame.polarity
        for event in context.trace.calls(".scale")
        for frame in event.context.frames()
    )


def _half(context: Context, backward: Event) -> Region | None:
    """The float16 region in which a part of the loss was computed."""
    loss = loss_of(backward)
    if any(isinstance(o, Obj) and o.name == ".scale" for o in options_of(backward.receiver)):
        return None  # by a scaler that is handed in
    for value in graph(loss):
        if not isinstance(value, Obj) or value.kind not in {"call", "op"}:
            continue
        if value.kind == "op" and value.name == "*" and any(_large(a) for a in value.args):
            return None  # scaled by hand
        region = region_of(value.context)
        if region is not None and region.dtype == "float16" and region.device in ("cuda", None):
            made = context.trace.results.get(id(value))
            if made is None or same_guards(made, backward):
                return region
    return None


def _large(value: object) -> bool:
    base = settle(value)  # type: ignore[arg-type]
    return isinstance(base, Known) and isinstance(base.value, (int, float)) and base.value >= 8
