"""The same parameters are in two groups of an optimizer.

## What it does
Compares the groups an optimizer is built with, and finds a module that is in one group as a whole while a part of it is in another.

## Why
PyTorch refuses such groups: `ValueError: some parameters appear in more than one parameter group`.
The script stops before the first step, after the model and the data were loaded.

## Fix
Leave the parameters of the part out of the group of the whole.

## When to ignore
Never: the optimizer cannot be built.

## References
- PyTorch, `torch.optim.Optimizer.add_param_group`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.parameters import Held, holding_of, parts_of
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="parameter-in-two-groups",
    code="OPT012",
    severity="error",
    confidence="certain",
    needs=("optimizer",),
    layer="D",
    tags=("optimizer",),
)

BAD = (
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(10, 10)
        self.head = nn.Linear(10, 2)
net = Net()
optimizer = torch.optim.SGD([{"params": net.parameters()}, {"params": net.head.parameters(), "lr": 0.1}], lr=0.01)
""",
    """
from torch.optim import AdamW as Opt
import torch.nn as nn
def groups(model):
    return [dict(params=list(model.parameters()), lr=1e-4), dict(params=model[1].parameters(), lr=1e-3)]
model = nn.Sequential(nn.Linear(10, 10), nn.Linear(10, 2))
opt = Opt(groups(model))
""",
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--head-lr", type=float, default=0.1)
args = parser.parse_args()
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.Linear(4, 4)
        self.head = torch.nn.Linear(4, 1)
m = Model()
optimizer = torch.optim.Adam(m.parameters(), lr=1e-3)
optimizer.add_param_group({"params": m.head.parameters(), "lr": args.head_lr})
""",
)

GOOD = (
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(10, 10)
        self.head = nn.Linear(10, 2)
net = Net()
optimizer = torch.optim.SGD([{"params": net.body.parameters()}, {"params": net.head.parameters(), "lr": 0.1}], lr=0.01)
""",
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(10, 10)
        self.head = nn.Linear(10, 2)
net = Net()
base = [p for n, p in net.named_parameters() if "head" not in n]
optimizer = torch.optim.SGD([{"params": base}, {"params": net.head.parameters(), "lr": 0.1}], lr=0.01)
""",
    """
import copy, torch
from torch import nn
a = nn.Sequential(nn.Linear(10, 10), nn.Linear(10, 2))
b = copy.deepcopy(a)
optimizer = torch.optim.SGD([{"params": a.parameters()}, {"params": b.parameters(), "lr": 0.1}], lr=0.01)
""",
    """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(10, 10), nn.Linear(10, 2))
for p in net[0].parameters():
    p.requires_grad = False
trainable = filter(lambda p: p.requires_grad, net.parameters())
optimizer = torch.optim.SGD([{"params": trainable}, {"params": net[0].parameters(), "lr": 0.1}], lr=0.01)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find two groups of which one holds a whole and the other a part of it."""
    for optimizer in context.reading.made("optimizer"):
        held = holding_of(context.reading, optimizer)
        pair = _overlap(held.parts)
        if pair is None or optimizer.open_args:
            continue
        whole, part = pair
        event = context.reading.event_of(optimizer)
        yield context.finding(
            RULE,
            event or optimizer,
            f"parameter groups {min(whole.group, part.group)} and {max(whole.group, part.group)} hold the same parameters: the optimizer refuses them",
            evidence=[
                Evidence("groups", held.groups),
                Evidence("group with the whole", whole.group),
                Evidence("group with its part", part.group),
            ],
            fix=Fix(
                title="leave the parameters of the part out of the group of the whole",
                safe=False,
                instruction="give the first group only the parameters that no other group holds",
                expected="the optimizer can be built, and each parameter has one learning rate",
            ),
            related=[(part.owner, "the part is made here")],
        )


def _overlap(parts: list[Held]) -> tuple[Held, Held] | None:
    for whole in parts:
        if whole.amount != "all":
            continue
        inside = parts_of(whole.owner, exact=True)
        for part in parts:
            if part.group != whole.group and part.amount == "all" and id(part.owner) in inside:
                return whole, part
    return None
