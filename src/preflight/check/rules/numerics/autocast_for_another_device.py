"""Autocast is for a device that the model is not on.

## What it does
Compares the device type that autocast is given with the device that the trained model is moved to.

## Why
Autocast changes only operations on tensors of its own device type: `autocast("cpu")` leaves everything on a GPU in float32, and the other way round.
The run is as slow and as large as without it, and nothing is reported.

## Fix
Give autocast the device type of the model: `torch.autocast(device.type)`.

## When to ignore
When part of the model runs on the other device on purpose.

## References
- PyTorch documentation, `torch.autocast`: `device_type`
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.backward_graph import graph
from preflight.check.queries.parameters import parts_of
from preflight.check.queries.precision import AUTOCASTS, device_of, regions
from preflight.check.rule import Rule
from preflight.source.evaluate.library.torch import wrapped
from preflight.source.trace import Event, name_of
from preflight.source.training import loss_of
from preflight.source.values import Choice, Known, Obj, Phi, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="autocast-for-another-device",
    code="AMP010",
    severity="warning",
    confidence="likely",
    needs=("training_loop", "model", "complete"),
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
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
""",
    """
import torch
from torch.cpu.amp import autocast as cast
DEVICE = torch.device("cuda:0")
net = torch.nn.Linear(4, 1)
net.to(DEVICE)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
def loss_of(x):
    with cast():
        return net(x.to(DEVICE)).mean()
for x in data:
    opt.zero_grad()
    loss_of(x).backward()
    opt.step()
""",
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--autocast", default="cpu")
args = parser.parse_args()
class Trainer:
    def __init__(self):
        self.net = torch.nn.Linear(4, 1).to(device="cuda")
        self.opt = torch.optim.Adam(self.net.parameters())
    def update(self, x):
        self.opt.zero_grad()
        with torch.autocast(args.autocast, dtype=torch.bfloat16):
            loss = self.net(x).mean()
        loss.backward()
        self.opt.step()
t = Trainer()
for x in data:
    t.update(x)
""",
)

GOOD = (
    """
import torch
from torch import nn
device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(10, 2).to(device)
optimizer = torch.optim.AdamW(model.parameters())
for x, y in data:
    optimizer.zero_grad()
    with torch.autocast(device, dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x.to(device)), y)
    loss.backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2).to("cpu")
model.cuda()
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
from somewhere import place
model = nn.Linear(10, 2).to("cpu")
place(model)
optimizer = torch.optim.AdamW(model.parameters())
for x, y in data:
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Compare the autocast blocks of each loss with where its modules are."""
    moves: list[_Move] | None = None
    for loop in context.reading.loops if context.trace.calls(*AUTOCASTS) else ():
        backward = loop.backwards[0]
        if backward.context.shadow:
            continue
        for value in graph(loss_of(backward)):
            if not isinstance(value, Obj) or value.name != "()":
                continue
            active = [r for r in regions(value.context) if r.enabled is True]
            if not active or active[0].device is None:
                continue
            moves = _moves(context) if moves is None else moves
            place = _place(moves, value.receiver)
            if place is None:
                continue
            if (
                active[0].device == place
                or any(r.device == place for r in active)
                or {active[0].device, place} - {"cuda", "cpu", "mps", "xpu"}
            ):
                continue
            yield context.finding(
                RULE,
                active[0].manager,
                f'autocast is for "{active[0].device}" and the model is on "{place}": it changes nothing',
                evidence=[
                    Evidence("device type of autocast", active[0].device),
                    Evidence("device of the model", place),
                ],
                fix=Fix(
                    title=f'use torch.autocast("{place}")',
                    safe=False,
                    instruction=f'give autocast the device type "{place}"',
                    expected="the model runs in 16 bit",
                ),
                related=[(value, "the model is called here")],
            )
            return


class _Move(NamedTuple):
    """A call that moves modules, or whose code is not seen and may move them; and what they hold, by identity."""

    event: Event
    hidden: bool
    parts: tuple[dict[int, Obj], ...]


def _moves(context: Context) -> list[_Move]:
    """All such calls, in order: many modules are asked about."""
    held: dict[int, dict[int, Obj]] = {}

    def parts(values: Iterable[Value | None]) -> tuple[dict[int, Obj], ...]:
        owners = [owner for owner in map(wrapped, values) if isinstance(owner, Obj)]
        for owner in owners:
            if id(owner) not in held:
                held[id(owner)] = parts_of(owner)
        return tuple(held[id(owner)] for owner in owners)

    found: list[_Move] = []
    for event in context.trace.events:
        if event.name in (".to", ".cuda", ".cpu"):
            found.append(_Move(event, False, parts((event.receiver,))))
        elif not event.inlined and not event.name.startswith(("torch.", "builtins.", ".")):
            found.append(_Move(event, True, parts((*event.args, *event.kwargs.values()))))
    return [move for move in found if move.parts]


def _place(moves: list[_Move], receiver: Value | None) -> str | None:
    """Where a module was moved last, itself or as a part of a model; None where it may be elsewhere."""
    module = wrapped(receiver)
    if not isinstance(module, Obj):
        return None
    found: str | None = None
    for event, hidden, parts in moves:
        if not any(id(module) in held for held in parts):
            continue
        if hidden:
            return None
        if event.name in (".cuda", ".cpu"):
            found = event.name[1:]
            continue
        where = [v for v in (*event.args[:1], event.kwargs.get("device")) if v is not None]
        for value in where:
            if isinstance(value, (Choice, Phi)) or (
                isinstance(settle(value), Known) and getattr(settle(value), "soft", False)
            ):
                return None
            kind = device_of(value)
            if kind is not None:
                found = kind
            elif not (name := name_of(settle(value)) or "").startswith("torch.") or name == "torch.device":
                return None
    return found
