"""The same seed is set in every pass of the training loop.

## What it does
Looks for calls that set PyTorch's seed to a fixed number inside of a training loop over batches.

## Why
Every pass then draws the same random numbers: dropout leaves out the same units, noise is the same noise, augmentation on the GPU is the same augmentation.
The run looks reproducible and has lost its randomness.

## Fix
Set the seed once, before the model is made.

## When to ignore
When a part of the pass is to be repeated exactly on purpose.

## References
- PyTorch documentation, "Reproducibility"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.counts import over_data
from preflight.check.queries.randomness import SEEDS
from preflight.check.queries.steps import each_pass
from preflight.check.rule import Rule
from preflight.source.values import Known, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="seed-set-in-loop",
    code="REP008",
    severity="warning",
    confidence="likely",
    needs=("training_loop",),
    layer="D",
    tags=("randomness",),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(10, 10), nn.Dropout(0.5), nn.Linear(10, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    torch.manual_seed(0)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
""",
    """
import torch
from transformers import set_seed
class Trainer:
    def __init__(self, net):
        self.net, self.opt = net, torch.optim.AdamW(net.parameters())
    def step(self, x):
        set_seed(42)
        self.opt.zero_grad()
        self.net(x + torch.randn_like(x)).mean().backward()
        self.opt.step()
    def fit(self, loader):
        for x in loader:
            self.step(x)
Trainer(torch.nn.Linear(8, 2)).fit(data)
""",
    """
import torch
SEED = 7
net = torch.nn.Linear(8, 2)
opt = torch.optim.Adam(net.parameters())
for epoch in range(3):
    for x in data:
        torch.random.manual_seed(SEED)
        opt.zero_grad()
        torch.nn.functional.dropout(net(x)).sum().backward()
        opt.step()
""",
)

GOOD = (
    """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
""",
    """
import torch
net = torch.nn.Linear(8, 2)
opt = torch.optim.Adam(net.parameters())
for step, x in enumerate(data):
    torch.manual_seed(step)
    opt.zero_grad()
    net(x).sum().backward()
    opt.step()
""",
    """
import torch
for seed in range(5):
    torch.manual_seed(0)
    net = torch.nn.Linear(8, 2)
    opt = torch.optim.Adam(net.parameters())
    for x in data:
        opt.zero_grad()
        net(x).sum().backward()
        opt.step()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find fixed seeds in loops over batches."""
    for event in context.trace.calls(*SEEDS):
        given = settle(event.args[0]) if event.args else None
        if not isinstance(given, Known) or isinstance(given.value, bool) or not isinstance(given.value, int):
            continue
        loop = next((one for one in context.reading.loops if event.context.within(one.frame)), None)
        if loop is None or not over_data(context, loop.frame) or not each_pass(event.context, loop.frame):
            continue
        yield context.finding(
            RULE,
            event,
            f"the seed is set to {given.value} in every pass: each one draws the same random numbers",
            evidence=[Evidence("seed in each pass", given.value)],
            fix=Fix(
                title="set the seed once",
                safe=False,
                instruction="move the call before the model is made",
                expected="the passes draw different numbers, and the run is as reproducible",
            ),
        )
