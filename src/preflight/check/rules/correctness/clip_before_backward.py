"""Gradients are clipped before they are computed.

## What it does
Looks for gradient clipping that comes before `backward()` in a pass of the loop, with none between `backward()` and `step()`.

## Why
At that point the gradients are cleared, or are those of the step before: what `backward()` writes afterwards goes into the weights unclipped.

## Fix
Clip between `backward()` and `step()`.

## When to ignore
When gradients add up over several passes and are clipped at the start of the next one.

## References
- PyTorch documentation, `torch.nn.utils.clip_grad_norm_`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.given_optimizers import belongs_to_loss, given_updates
from preflight.check.queries.updates import accumulation, guards, happens_with, updates
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="clip-before-backward",
    code="OPT015",
    severity="error",
    confidence="likely",
    needs=("training_loop",),
    layer="D",
    tags=("optimizer", "clipping"),
)

BAD = (
    """
from torch.nn.utils import clip_grad_norm_
def one_epoch(model, loader, criterion, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        clip_grad_norm_(model.parameters(), 1.0)
        loss.backward()
        optimizer.step()
""",
    """
from torch.nn.utils import clip_grad_norm_
class Training:
    def __init__(self, model, optimizer, loader):
        self.model, self.optimizer, self.loader = model, optimizer, loader
    def epoch(self):
        for x, y in self.loader:
            loss = self.model(x, labels=y).loss
            self.optimizer.zero_grad()
            clip_grad_norm_(self.model.parameters(), 1.0)
            loss.backward()
            self.optimizer.step()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    loss.backward()
    optimizer.step()
""",
    """
from torch.nn.utils import clip_grad_norm_ as clip
from torch.optim import Adam
import torch.nn as nn
class Trainer:
    def __init__(self):
        self.net = nn.Linear(10, 2)
        self.opt = Adam(self.net.parameters())
    def update(self, loss):
        clip(self.net.parameters(), 0.5)
        loss.backward()
        self.opt.step()
        self.opt.zero_grad()
t = Trainer()
for x, y in loader:
    t.update(nn.functional.mse_loss(t.net(x), y))
""",
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--clip", type=float, default=1.0)
args = parser.parse_args()
net = torch.nn.Linear(4, 1)
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
for x in data:
    torch.nn.utils.clip_grad_value_(net.parameters(), args.clip)
    sgd.zero_grad()
    net(x).mean().backward()
    sgd.step()
""",
)

GOOD = (
    """
from torch.nn.utils import clip_grad_norm_
def one_epoch(model, loader, criterion, optimizer, every):
    for i, (x, y) in enumerate(loader):
        if i % every == 0:
            clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        criterion(model(x), y).backward()
""",
    """
import torch
from torch.nn.utils import clip_grad_norm_
def by_hand(actor, critic, loader, criterion, optimizer, rate):
    for x, y, worth in loader:
        parameters = list(critic.parameters())
        for p, g in zip(parameters, torch.autograd.grad((critic(x) - worth).pow(2).mean(), parameters)):
            p.grad = g
        clip_grad_norm_(critic.parameters(), 1.0)
        with torch.no_grad():
            for p in parameters:
                p -= rate * p.grad
        optimizer.zero_grad()
        criterion(actor(x), y).backward()
        optimizer.step()
def of_another(model, table, loader, criterion, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        clip_grad_norm_(table.parameters(), 1.0)
        table.apply_sparse()
        criterion(model(x), y).backward()
        optimizer.step()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, (x, y) in enumerate(data):
    if i % 4 == 0 and i:
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    (nn.functional.cross_entropy(model(x), y) / 4).backward()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    optimizer.zero_grad()
    model(x).mean().backward(retain_graph=True)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    nn.functional.cross_entropy(model(x), y).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find clipping in front of the first backward, with none behind it."""
    for update in updates(context):
        clips = update.clips()
        backwards = update.backwards(sure=True)
        if not backwards or not clips or not update.zeros or accumulation(update) is not None:
            continue
        frame = update.loop.frame
        first = backwards[0]
        if any(c.number > first.number for c in clips) or first.number > update.steps[-1].number:
            continue
        if any(s.number < first.number for s in update.steps) or guards(update.steps[0], frame) != guards(first, frame):
            continue
        early = [c for c in clips if happens_with(first, c, frame) or happens_with(c, first, frame)]
        if not early or any(not happens_with(z, first, frame) for z in update.zeros):
            continue
        yield _finding(context, early, first, update.steps[0], update.name())
    for given in given_updates(context):
        early = [c for c in given.clips if c.number < given.backward.number and belongs_to_loss(given.loop, c)]
        if early and len(early) == len(given.clips) and given.backward.number < given.step.number:
            yield _finding(context, early, given.backward, given.step, "optimizer")


def _finding(context: Context, early: list[Event], backward: Event, step: Event, name: str) -> Finding:
    return context.finding(
        RULE,
        early[0],
        "gradients are clipped before backward() computes them: the step uses unclipped gradients",
        evidence=[
            Evidence("clippings before backward", len(early)),
            Evidence("clippings between backward and step", 0),
        ],
        fix=Fix(
            title="clip between backward() and step()",
            safe=False,
            instruction=f"move the clipping behind backward(), before {name}.step()",
            expected="the step uses clipped gradients",
        ),
        related=[(backward, "gradients are computed here"), (step, "the optimizer steps here")],
    )
