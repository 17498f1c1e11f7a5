"""The optimizer steps before the gradients are computed.

## What it does
Looks for a loop in which `step()` comes before `backward()` in every pass.

## Why
The step works on what the pass before left behind.
Where gradients are cleared after `backward()`, that is nothing at all; where they are cleared in between, each update is one batch late and the last gradient is never used.

## Fix
Order the pass: clear, forward, `backward()`, `step()`.

## When to ignore
When the delay is wanted, as in a pipeline that overlaps the update with the next batch.

## References
- PyTorch documentation, "Optimizing Model Parameters"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.given_optimizers import computed_before, given_updates
from preflight.check.queries.updates import accumulation, guards, managed, updates
from preflight.check.rule import Rule
from preflight.source.trace import Context as Frame
from preflight.source.trace import Event
from preflight.source.values import plain
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="step-before-backward",
    code="OPT019",
    severity="error",
    confidence="likely",
    needs=("training_loop",),
    layer="D",
    tags=("optimizer",),
)

BAD = (
    """
class Trainer:
    def __init__(self, model, optimizer, loader):
        self.model, self.optimizer, self.loader = model, optimizer, loader
    def epoch(self):
        for x, y in self.loader:
            loss = self.model(x, labels=y).loss
            self.optimizer.zero_grad()
            self.optimizer.step()
            loss.backward()
""",
    """
import torch
from torch import nn
class Falling(torch.optim.SGD):
    def __init__(self, params, lr, steps):
        super().__init__(params, lr)
        self.done, self.steps = 0, steps
    def step(self, closure=None):
        for group in self.param_groups:
            group["lr"] *= 1 - self.done / self.steps
        super().step(closure)
        self.done += 1
model = nn.Linear(8, 2)
optimizer = Falling(model.parameters(), lr=0.1, steps=100)
for x, y in loader:
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    optimizer.step()
    loss.backward()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.step()
    loss.backward()
""",
    """
from torch.optim import Adam as A
import torch.nn as nn
class Trainer:
    def __init__(self):
        self.net = nn.Linear(10, 10)
        self.opt = A(self.net.parameters())
    def update(self, loss):
        self.opt.step()
        self.opt.zero_grad()
        loss.backward()
t = Trainer()
for x in loader:
    t.update(nn.functional.mse_loss(t.net(x), x))
""",
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
args = parser.parse_args()
net = torch.nn.Linear(4, 1)
sgd = torch.optim.SGD(net.parameters(), lr=args.lr)
for x in data:
    cost = net(x).mean()
    sgd.step()
    cost.backward()
    sgd.zero_grad()
""",
    """
import torch
def one_epoch(net, loader, optimizer):
    for x, y in loader:
        if len(x) < 2:
            continue
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x), y)
        optimizer.step()
        loss.backward()
""",
    """
import torch
net = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
def one_epoch(loader):
    for x, y in loader:
        if x.isnan().any():
            continue
        loss = torch.nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        optimizer.step()
        loss.backward()
for epoch in range(3):
    one_epoch(torch.utils.data.DataLoader(data, batch_size=8, shuffle=True))
""",
)

GOOD = (
    """
import torch
def one_epoch(net, loader, optimizer, scheduler):
    for i, (x, y) in enumerate(loader):
        if x.isnan().any():
            continue
        loss = torch.nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        if i < 100:
            continue
        optimizer.step()
net = torch.nn.Linear(4, 4)
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
for i, (x, y) in enumerate(data):
    if len(x) < 2:
        continue
    if i % 4 == 0:
        sgd.step()
        sgd.zero_grad()
    torch.nn.functional.mse_loss(net(x), y).backward()
""",
    """
def one_epoch(model, loader, criterion, optimizer, every):
    for i, (x, y) in enumerate(loader):
        if i % every == 0:
            optimizer.step()
            optimizer.zero_grad()
        criterion(model(x), y).backward()
def other_epoch(model, loader, criterion, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
def epoch_with_closures(model, loader, criterion, optimizer):
    for x, y in loader:
        def closure():
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            return loss
        optimizer.step(closure=closure)
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def epoch(batches):
    model(next(batches)).pow(2).mean().backward()
    for x in batches:
        optimizer.step()
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
    optimizer.step()
def given_epoch(model, batches, criterion, optimizer):
    x, y = next(batches)
    criterion(model(x), y).backward()
    for x, y in batches:
        optimizer.step()
        optimizer.zero_grad()
        criterion(model(x), y).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, (x, y) in enumerate(data):
    if i > 0 and i % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
    (nn.functional.cross_entropy(model(x), y) / 4).backward()
""",
    """
import torch
from torch import nn
G, D = nn.Linear(8, 8), nn.Linear(8, 1)
opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
for x in data:
    opt_d.zero_grad()
    D(x).mean().backward()
    opt_d.step()
    opt_g.zero_grad()
    D(G(x)).mean().backward()
    opt_g.step()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.LBFGS(model.parameters())
for x, y in data:
    def closure():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        return loss
    optimizer.step(closure)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Order the first backward and the last step of each optimizer within one pass."""
    for update in updates(context):
        backwards = update.backwards(sure=True)
        if (
            not backwards
            or len(update.backwards()) != len(backwards)
            or accumulation(update)
            or managed(context, update.optimizer)
        ):
            continue
        frame, first, last = update.loop.frame, backwards[0], update.steps[-1]
        if last.number > first.number or (_with_closure(last) and last.receiver is update.optimizer):
            continue
        if not update.zeros or last.context.loops()[:1] != [frame]:
            continue
        if any(
            guards(e, frame) != guards(last, frame) for e in (first, *(update.zeros if guards(last, frame) else ()))
        ):
            continue  # under one test all are of one pass: where it fails, as after a ``continue``, nothing is done
        if _late(update.zeros, last, first) and _begun(context, frame, last):
            continue
        yield _finding(context, update.zeros, last, first, update.name())
    for given in given_updates(context):
        if given.step.number < given.backward.number and computed_before(given.loop, given.step):
            yield _finding(context, list(given.zeros), given.step, given.backward, "optimizer")


def _late(zeros: list[Event], step: Event, backward: Event) -> bool:
    """Whether the step uses gradients of the pass before: they are cleared between it and the next ones."""
    return any(step.number < zero.number < backward.number for zero in zeros)


def _begun(context: Context, frame: Frame, step: Event) -> bool:
    """Whether gradients were computed straight before the loop: its passes step on what the one before left."""
    return any(e.number < step.number and frame.within(e.context) for e in context.trace.calls(".backward"))


def _finding(context: Context, zeros: list[Event], step: Event, backward: Event, name: str) -> Finding:
    late = _late(zeros, step, backward)
    text = (
        "the optimizer steps before backward(): each update uses the gradients of the batch before"
        if late
        else "the optimizer steps before backward(), on gradients that were cleared: nothing is learned"
    )
    order = sorted([*((z.number, "zero_grad") for z in zeros), (step.number, "step"), (backward.number, "backward")])
    return context.finding(
        RULE,
        step,
        text,
        severity="warning" if late else None,
        evidence=[Evidence("order in one pass of the loop", " > ".join(done for _, done in order))],
        fix=Fix(
            title="step after backward()",
            safe=False,
            instruction=f"move {name}.step() behind backward()",
            expected="each step uses the gradient of its own batch",
        ),
        related=[(backward, "gradients are computed here")],
    )


def _with_closure(step: Event) -> bool:
    """Whether a step computes its gradients itself: a class of its own hands ``closure=None`` on."""
    return any(plain(given, "?") is not None for given in step.args)
