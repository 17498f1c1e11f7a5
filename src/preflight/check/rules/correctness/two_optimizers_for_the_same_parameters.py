"""Two optimizers step the same parameters on the same gradients.

## What it does
Finds two optimizers that hold the same model and both step in one pass of the loop, with no new gradient between the steps.

## Why
Each gradient is applied twice: the effective learning rate is the sum of both, and the state that each keeps (momentum, second moments) describes only half of what happens.

## Fix
Keep one optimizer, or give each its own part of the model.

## When to ignore
When the second step is meant as a correction of the first.

## References
- PyTorch documentation, `torch.optim`: parameter groups
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.updates import Update, guards, updates
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="two-optimizers-for-the-same-parameters",
    code="OPT018",
    severity="warning",
    confidence="likely",
    needs=("training_loop", "optimizer"),
    layer="D",
    tags=("optimizer",),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
first = torch.optim.SGD(model.parameters(), lr=0.1)
second = torch.optim.Adam(model.parameters())
for x, y in data:
    first.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    first.step()
    second.step()
""",
    """
from torch.optim import Adam as A
import torch.nn as nn
class Trainer:
    def __init__(self):
        self.net = nn.Linear(10, 10)
        self.one, self.two = A(self.net.parameters()), A(list(self.net.parameters()))
    def update(self, x):
        self.net.zero_grad()
        nn.functional.mse_loss(self.net(x), x).backward()
        self.one.step()
        self.two.step()
t = Trainer()
for x in loader:
    t.update(x)
""",
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
args = parser.parse_args()
net = torch.nn.Linear(4, 1)
def make(model):
    return torch.optim.SGD(model.parameters(), lr=args.lr)
a = make(net)
b = make(net)
for x in data:
    a.zero_grad()
    net(x).mean().backward()
    a.step()
    b.step()
""",
)

GOOD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
warm = torch.optim.SGD(model.parameters(), lr=0.1)
main = torch.optim.Adam(model.parameters())
for i, (x, y) in enumerate(data):
    optimizer = warm if i < 100 else main
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
""",
    """
import itertools, torch
from torch import nn
G, D = nn.Linear(8, 8), nn.Linear(8, 1)
opt_g = torch.optim.Adam(G.parameters())
opt_info = torch.optim.Adam(itertools.chain(G.parameters(), D.parameters()))
for x in data:
    opt_g.zero_grad()
    D(G(x)).mean().backward()
    opt_g.step()
    opt_info.zero_grad()
    D(G(x)).pow(2).mean().backward()
    opt_info.step()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Compare what the optimizers of a loop hold."""
    found = list(updates(context))
    for i, first in enumerate(found):
        for second in found[i + 1 :]:
            if first.loop is not second.loop or not _same(first, second):
                continue
            one, two = sorted((first.steps[0], second.steps[0]), key=lambda e: e.number)
            if any(one.number < b.number < two.number for b in first.loop.backwards) or guards(
                one, first.loop.frame
            ) != guards(two, first.loop.frame):
                continue
            if any(one.number < z.number < two.number for z in first.loop.zeros):
                continue
            yield context.finding(
                RULE,
                two,
                f"{first.name()} and {second.name()} hold the same parameters and both step on the same gradients: each gradient is applied twice",
                evidence=[
                    Evidence("optimizers with the same parameters", 2),
                    Evidence("backwards between their steps", 0),
                ],
                fix=Fix(
                    title="keep one optimizer, or give each its own parameters",
                    safe=False,
                    instruction=f"remove the step of {second.name()}, or build it with other parameters",
                    expected="each gradient is applied once",
                ),
                related=[
                    (one, "the other optimizer steps here"),
                    (first.optimizer, "made here"),
                    (second.optimizer, "made here"),
                ],
            )


def _same(first: Update, second: Update) -> bool:
    one, two = first.holding, second.holding
    if not (one.complete and two.complete and one.parts and two.parts):
        return False
    if any(p.amount != "all" for h in (one, two) for p in h.parts):
        return False
    return {id(p.owner) for p in one.parts} == {id(p.owner) for p in two.parts}
