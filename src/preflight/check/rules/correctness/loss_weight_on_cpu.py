"""The class weights of a loss stay on the CPU.

## What it does
Reports a criterion made with a weight tensor on the CPU and never moved, in a script that sends the model to a GPU.

## Why
The loss multiplies the weights with the output, and both have to be on one device.
The first step stops: "Expected all tensors to be on the same device".

## Fix
Move the criterion or the weights: `criterion.to(device)`.

## When to ignore
When a default device is set by code that cannot be seen.

## References
- PyTorch documentation of CrossEntropyLoss
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.losses import loss_calls
from preflight.check.queries.placement import made_at, model_on_gpu
from preflight.check.queries.tensors import source_text
from preflight.check.rule import Rule
from preflight.source.evaluate.library.methods import is_module
from preflight.source.trace import provenance
from preflight.source.values import Obj, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="loss-weight-on-cpu",
    code="LOS009",
    severity="error",
    confidence="likely",
    needs=("complete",),
    tags=("loss", "device"),
)

BAD = (
    """
import torch, torch.nn as nn
model = nn.Linear(8, 3).cuda()
criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 5.0]))
for x, y in loader:
    criterion(model(x.cuda()), y.cuda()).backward()
""",
    """
import torch
from torch.nn.functional import cross_entropy as ce
device = torch.device("cuda:0")
net = torch.nn.Linear(8, 3).to(device)
def loss_of(x, y):
    weights = torch.ones(3)
    return ce(net(x), y, weights)
for x, y in loader:
    loss_of(x.to(device), y.to(device)).backward()
""",
    """
import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--positive", type=float, default=3.0)
args = p.parse_args()
class Task:
    def __init__(self):
        self.net = torch.nn.Linear(8, 2).to("cuda")
        self.loss = torch.nn.BCEWithLogitsLoss(pos_weight=torch.full((2,), 1.0) * args.positive)
    def run(self):
        for x, y in loader:
            self.loss(self.net(x.to("cuda")), y.to("cuda")).backward()
Task().run()
""",
)

GOOD = (
    """
import torch, torch.nn as nn
model = nn.Linear(8, 3).cuda()
moved = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 5.0])).cuda()
there = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 5.0], device="cuda"))
for x, y in loader:
    (moved(model(x.cuda()), y.cuda()) + there(model(x.cuda()), y.cuda())).backward()
""",
    """
import torch, torch.nn as nn
model = nn.Linear(8, 3).cuda()
criterion = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(3.0))
later = nn.CrossEntropyLoss(weight=torch.ones(3))
later.to("cuda")
for x, y in loader:
    (criterion(model(x.cuda()), y.cuda()) + later(model(x.cuda()), y.cuda())).backward()
    later(model(x.cuda()).cpu(), y).backward()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Look for weights on the CPU in losses of a model on a GPU."""
    if not model_on_gpu(context) or context.trace.calls("torch.set_default_device", "torch.set_default_tensor_type"):
        return
    for call in loss_calls(
        context, "cross_entropy", "nll_loss", "binary_cross_entropy_with_logits", "binary_cross_entropy"
    ):
        for keyword in ("weight", "pos_weight"):
            given = call.option(keyword)
            found = made_at(given)
            if given is None or found is None or found[1] == "moved" or call.event.context.shadow:
                continue
            if call.criterion is not None and (
                context.trace.on(call.criterion, "to", "cuda") or _in_module(context, call.criterion)
            ):
                continue
            if any(isinstance(p, Obj) and p.name in (".cpu", ".numpy") for p in provenance(call.input, 40)):
                continue
            yield context.finding(
                RULE,
                call.criterion or call.event,
                f"the {keyword} of {call.name} is made on the CPU and never moved, but the model is on a GPU: the first step stops",
                evidence=[Evidence(keyword, source_text(context, given)), Evidence("moved", False)],
                related=[(call.event, "the loss is computed here")],
                fix=Fix(
                    title="move the loss to the device",
                    instruction="call .to(device) on the criterion, or make the weights with device=device",
                    expected="weights and outputs are on one device",
                ),
            )


def _in_module(context: Context, criterion: Obj) -> bool:
    """Whether the criterion is an attribute of a module, which moves it along."""
    return any(settle(s.value) is criterion and is_module(settle(s.target)) for s in context.trace.stores)
