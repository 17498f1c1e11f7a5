"""All parameters of an optimizer are frozen.

## What it does
Finds an optimizer that steps, or is handed to what may step it, while all its parameters are frozen and never thawed; in a dry run, one that steps again and again while none of its parameters requires a gradient.

## Why
A parameter with `requires_grad=False` gets no gradient, and an optimizer skips it without a word.
The loss may still go down a little, where another part of the model learns; what this optimizer holds stays as it was.
The usual cause is a freezing that hits more than it was meant to: a loop over all parameters, a call on the wrong module, or an unfreezing that never happens.

## Fix
Unfreeze what is to be trained before the step: `module.requires_grad_(True)`; or leave the optimizer out.

## When to ignore
When the parameters are unfrozen later, by code that was not followed or that the dry run did not get to.

## References
- PyTorch, "Autograd mechanics": setting `requires_grad`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.handed_on import STEPS_NOTHING, handed_on
from preflight.check.queries.parameters import holding_of
from preflight.check.queries.updates import managed
from preflight.check.rule import Rule
from preflight.source.frozen import frozen_layers
from preflight.source.layers import Network
from preflight.source.values import Obj, options_of
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="optimizer-over-frozen-parameters",
    code="OPT020",
    severity="error",
    confidence="likely",
    needs=("optimizer", "complete"),
    layer="D",
    tags=("optimizer",),
)

_LOOP = """
for x, y in loader:
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
"""

BAD = (
    """
import torch
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
for p in net.parameters():
    p.requires_grad = False
optimizer = torch.optim.Adam(net.parameters())
"""
    + _LOOP,
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(8, 8), nn.Linear(8, 2)
    def forward(self, x):
        return self.head(self.body(x))
net = Net().requires_grad_(False)
optimizer = torch.optim.SGD(net.head.parameters(), lr=0.1)
"""
    + _LOOP,
    """
import argparse, torch
from torchvision.models import resnet18
p = argparse.ArgumentParser()
p.add_argument("--classes", type=int, default=10)
args = p.parse_args()
net = resnet18()
net.fc = torch.nn.Linear(512, args.classes)
for parameter in net.parameters():
    parameter.requires_grad = False
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
"""
    + _LOOP,
)

GOOD = (
    """
import torch
from dataclasses import dataclass
@dataclass
class Config:
    train: bool = False
net = torch.nn.Linear(8, 2)
optimizer = torch.optim.Adam(net.parameters())
def main(config: Config):
    if not config.train:
        net.requires_grad_(False)
    else:
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(net(x), y).backward()
            optimizer.step()
    for x in test_loader:
        print(net(x).argmax(1))
main(Config())
""",
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--train", action="store_true")
parser.add_argument("--epochs", type=int, default=0)
args = parser.parse_args()
net = torch.nn.Linear(8, 2)
optimizer = torch.optim.Adam(net.parameters())
trains = args.train and args.epochs > 0
net.requires_grad_(trains)
if trains:
    for epoch in range(args.epochs):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(net(x), y).backward()
            optimizer.step()
""",
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--mode", choices=["train", "test"], default="test")
args = parser.parse_args()
net = torch.nn.Linear(8, 2)
if args.mode == "test":
    net.requires_grad_(False)
optimizer = torch.optim.Adam(net.parameters())
if args.mode == "train":
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(x), y).backward()
        optimizer.step()
""",
    """
import torch
from torchvision.models import resnet18
net = resnet18()
for parameter in net.parameters():
    parameter.requires_grad = False
net.fc = torch.nn.Linear(512, 10)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
"""
    + _LOOP,
    """
import torch
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 2))
net.requires_grad_(False)
net[1].requires_grad_(True)
optimizer = torch.optim.Adam(net.parameters())
"""
    + _LOOP,
    """
import copy, torch
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 2))
average = copy.deepcopy(net).requires_grad_(False)
optimizer = torch.optim.Adam(net.parameters())
"""
    + _LOOP,
    """
import torch
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 2))
for name, p in net.named_parameters():
    p.requires_grad = name in chosen
optimizer = torch.optim.Adam(net.parameters())
"""
    + _LOOP,
    """
import torch
def fit(net, wanted):
    optimizer = torch.optim.Adam(net.parameters())
    for x in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(x), wanted(x)).backward()
        optimizer.step()
    return net.eval().requires_grad_(False)  # it is a teacher from here on
teacher = fit(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 2)), label)
student = fit(torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.Linear(4, 2)), teacher)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find optimizers over nothing but layers that are frozen for good."""
    for optimizer in context.reading.made("optimizer"):
        made = context.reading.event_of(optimizer)
        parts = holding_of(context.reading, optimizer).parts
        if made is None or made.context.shadow or not parts:
            continue
        first = _first_step(context, optimizer)
        if first is None and not _steps_elsewhere(context, optimizer):
            continue  # where no training is reached, nothing is lost by what is frozen
        counts = [_frozen(context, part.owner, first) if part.amount == "all" else None for part in parts]
        if any(count is None for count in counts):
            continue
        total = sum(count or 0 for count in counts)
        yield context.finding(
            RULE,
            made,
            f"all {total:,} parameters that the optimizer is given are frozen: nothing is trained",
            evidence=[
                Evidence("parameters that require a gradient", 0),
                Evidence("parameters of the optimizer", total),
            ],
            fix=Fix(
                title="unfreeze what is to be trained",
                instruction="call requires_grad_(True) on the modules that this optimizer is for, or freeze fewer",
                expected="the optimizer finds gradients",
            ),
        )


def _first_step(context: Context, optimizer: Obj) -> int | None:
    """The place of an optimizer's first step in the order of things: what is frozen after it was trained before."""
    steps = (
        e
        for e in context.trace.calls(".step")
        if not e.context.shadow and any(o is optimizer for v in (e.receiver, *e.args) if v for o in options_of(v))
    )
    return next((e.number for e in steps), None)


def _steps_elsewhere(context: Context, optimizer: Obj) -> bool:
    """Whether a framework, or code that was not followed, may step an optimizer."""
    made = context.reading.made
    return (
        bool(made("lightning_trainer") or made("trainer"))
        or managed(context)
        or handed_on(context, optimizer, STEPS_NOTHING, (".append", ".zero_grad"))
    )


def _frozen(context: Context, owner: Obj, until: int | None) -> int | None:
    """The parameters of a module that are all frozen by then, or None where one may not be."""
    network = Network(context.reading, owner)
    frozen = frozen_layers(context.reading, network, until)
    total = network.total
    if any(not leaf.obj.name.startswith("torch.nn.") for leaf in network.leaves):
        return None  # a network that is known as a whole may have been given layers that were not seen
    return total if total and frozen.certain and frozen.parameters == total else None
