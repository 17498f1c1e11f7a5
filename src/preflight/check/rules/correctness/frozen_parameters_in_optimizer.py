"""Frozen parameters are given to the optimizer.

## What it does
Finds a module that is frozen (`requires_grad_(False)`, or the attribute set on its parameters) and that the optimizer holds with everything else.

## Why
A frozen parameter has no gradient, so PyTorch's optimizers skip it and allocate nothing for it.
Others do not skip: flattened (ZeRO, FSDP) and fused ones allocate states for every parameter they are given, 8 bytes each for Adam in float32.

## Fix
Give the optimizer only what requires grad: `filter(lambda p: p.requires_grad, model.parameters())`.

## When to ignore
When the parameters are thawed later in the run: then the optimizer has to know them from the start.

## References
- PyTorch documentation, "Autograd mechanics": `requires_grad`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.parameters import holding_of, parts_of
from preflight.check.rule import Rule
from preflight.source.evaluate.library.methods import is_module
from preflight.source.trace import Event, Store, provenance
from preflight.source.values import Known, Obj, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="frozen-parameters-in-optimizer",
    code="OPT007",
    severity="info",
    confidence="likely",
    needs=("optimizer", "complete"),
    layer="D",
    persona="pedantic",
    tags=("optimizer", "memory"),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))
model[0].requires_grad_(False)
optimizer = torch.optim.Adam(model.parameters())
""",
    """
from torch.optim import AdamW as Opt
import torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.head = nn.Linear(4, 2)
        for p in self.body.parameters():
            p.requires_grad = False
net = Net()
opt = Opt(list(net.parameters()))
""",
    """
import argparse, torch, torchvision
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
args = parser.parse_args()
def freeze(module):
    for name, weight in module.named_parameters():
        weight.requires_grad_(False)
model = torchvision.models.resnet18(weights="DEFAULT")
freeze(model)
model.fc = torch.nn.Linear(512, 10)
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
""",
)

GOOD = (
    """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))
model[0].requires_grad_(False)
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad])
""",
    """
import torch
from torch import nn
body, head = nn.Linear(8, 8), nn.Linear(8, 2)
body.requires_grad_(False)
optimizer = torch.optim.Adam(head.parameters())
""",
    """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))
model[0].requires_grad_(False)
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(10):
    if epoch == 5:
        model[0].requires_grad_(True)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find freezing before an optimizer is built over the same modules as a whole."""
    frozen = list(_freezing(context, False))
    thawed = {i for _, module in _freezing(context, True) for i in parts_of(module)}
    for optimizer in context.reading.made("optimizer"):
        made = context.reading.event_of(optimizer)
        whole = {
            i for p in holding_of(context.reading, optimizer).parts if p.amount == "all" for i in parts_of(p.owner)
        }
        for place, module in frozen:
            if made is None or place.number > made.number or id(module) not in whole or id(module) in thawed:
                continue
            yield context.finding(
                RULE,
                made,
                "the optimizer is given parameters that are frozen",
                evidence=[
                    Evidence("parameters that are frozen and held", "yes"),
                    Evidence("bytes per parameter that some optimizers allocate", 8, "bytes"),
                ],
                fix=Fix(
                    title="give the optimizer only what requires grad",
                    safe=False,
                    instruction="wrap the parameters in filter(lambda p: p.requires_grad, ...)",
                    expected="no state for weights that never change",
                ),
                related=[(place, "frozen here")],
            )
            break


def _freezing(context: Context, wanted: bool) -> Iterator[tuple[Event | Store, Obj]]:
    """Places that freeze (or thaw) a module, with the module."""
    for event in context.trace.calls(".requires_grad_"):
        given = event.argument(0, "requires_grad")
        value = settle(given) if given is not None else Known(True)
        if isinstance(value, Known) and bool(value.value) is wanted and not event.context.shadow:
            module = _module(event.receiver)
            if module is not None:
                yield event, module
        elif not isinstance(value, Known) and wanted and (module := _module(event.receiver)) is not None:
            yield event, module
    for store in context.trace.stores:
        value = settle(store.value)
        if store.name == "requires_grad" and not store.context.shadow:
            module = _module(store.target)
            if module is not None and (bool(value.value) is wanted if isinstance(value, Known) else wanted):
                yield store, module


def _module(value: object) -> Obj | None:
    """The module whose parameters are meant: itself, or the one a loop over its parameters goes through."""
    for part in provenance(value, 12):  # type: ignore[arg-type]
        base = settle(part)
        if isinstance(base, Obj) and is_module(base):
            return base
    return None
