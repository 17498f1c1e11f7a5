"""The backward pass comes after the loop over batches, and sees the last batch only.

## What it does
Looks for a `backward()` behind a loop over data, on a loss that each pass of that loop computes anew.

## Why
The loop runs the network on every batch and throws each loss away when the next one comes; one gradient is left for each epoch, that of its last batch.
Training goes on, and is as slow as if there were one batch in an epoch.

## Fix
Call `zero_grad()`, `backward()` and `step()` inside of the loop over batches, or add the losses up and train on the sum.

## When to ignore
When the loop is a burn-in whose last output alone is to be trained on.

## References
- PyTorch tutorials, "Optimizing Model Parameters"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.backward_graph import grad_mode
from preflight.check.queries.counts import over_loader
from preflight.check.queries.cut_off import behind
from preflight.check.queries.losses import is_loss
from preflight.check.rule import Rule
from preflight.source.trace import Context as Frame
from preflight.source.trace import Event
from preflight.source.training import loss_of
from preflight.source.values import Obj, Phi, Value, options_of
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="loss-of-last-batch-only",
    code="ACC008",
    severity="error",
    confidence="likely",
    needs=("training_loop",),
    layer="D",
    tags=("gradients",),
)

BAD = (
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(dataset, batch_size=32, shuffle=True)
for epoch in range(10):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
""",
    """
import torch
import torch.nn as nn
from torch.utils.data import DataLoader
net, criterion = nn.Linear(4, 4), nn.MSELoss()
opt = torch.optim.Adam(net.parameters())
def epoch(loader):
    for inputs, targets in loader:
        output = net(inputs)
        cost = criterion(output, targets)
    opt.zero_grad()
    cost.backward()
    opt.step()
for _ in range(100):
    epoch(DataLoader(pairs, batch_size=16))
""",
    """
import torch
from torch.utils.data import DataLoader
class Trainer:
    def __init__(self):
        self.net = torch.nn.Linear(8, 1)
        self.opt = torch.optim.AdamW(self.net.parameters())
        self.data = DataLoader(rows, batch_size=64)
    def fit(self):
        for epoch in range(5):
            for x, y in self.data:
                loss = torch.nn.functional.l1_loss(self.net(x), y)
                print(loss.item())
            loss.backward()
            self.opt.step()
            self.opt.zero_grad()
Trainer().fit()
""",
)

GOOD = (
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(dataset, batch_size=32, shuffle=True)
for epoch in range(10):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    print(loss.item())
""",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(dataset, batch_size=32, shuffle=True)
for epoch in range(10):
    total = 0
    for x, y in loader:
        total = total + nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
cell, head = nn.LSTMCell(8, 16), nn.Linear(16, 2)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()])
for x, y in loader:
    state = None
    for frame in x.unbind(1):
        state = cell(frame, state)
        loss = nn.functional.cross_entropy(head(state[0]), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find losses of an inner loop over data that a later backward pass takes."""
    for loop in context.reading.loops:
        for backward in loop.backwards:
            loss = _last(loss_of(backward))
            if loss is None or not is_loss(loss) or grad_mode(loss.context) is not True or not behind(loss):
                continue
            inner = _inner(loss, backward)
            if inner is None or not over_loader(context, inner):
                continue
            yield context.finding(
                RULE,
                backward,
                "backward() comes behind the loop over batches: of each epoch only the last batch is trained on",
                evidence=[Evidence("losses that reach backward() in an epoch", 1)],
                fix=Fix(
                    title="call backward() and step() for every batch",
                    safe=False,
                    instruction="move zero_grad(), backward() and step() into the loop over batches",
                    expected="every batch is trained on",
                ),
                related=[(loss, "each pass computes this loss anew")],
            )
            break


def _last(loss: Value | None) -> Obj | None:
    """The loss of a pass of the loop, where it is what the last pass left."""
    for option in options_of(loss, limit=4):
        value = option.final if isinstance(option, Phi) else option
        if isinstance(value, Obj):
            return value
    return None


def _inner(loss: Obj, backward: Event) -> Frame | None:
    """The loop that computes the loss, where the backward pass is not in it."""
    loops = loss.context.loops() if loss.context is not None else []
    return loops[0] if loops and not backward.context.within(loops[0]) else None
