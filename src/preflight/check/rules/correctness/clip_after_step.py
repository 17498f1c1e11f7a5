"""Gradients are clipped after the step.

## What it does
Looks for gradient clipping that comes after `optimizer.step()` in a pass of the loop, with no clipping before it.

## Why
The step has used the gradients by then, and the next clearing throws away what was clipped: the largest gradient goes into the weights unclipped.

## Fix
Clip between `backward()` and `step()`.

## When to ignore
When the call only measures the norm for a log; `torch.nn.utils.get_total_norm` says that more plainly.

## References
- PyTorch documentation, `torch.nn.utils.clip_grad_norm_`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.given_optimizers import belongs_to_loss, given_updates
from preflight.check.queries.updates import Update, happens_with, updates
from preflight.check.rule import Rule
from preflight.source.trace import Event, name_of
from preflight.source.training import same_guards
from preflight.source.values import settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="clip-after-step",
    code="OPT014",
    severity="error",
    confidence="likely",
    needs=("training_loop",),
    layer="D",
    tags=("optimizer", "clipping"),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
""",
    """
from torch.nn.utils import clip_grad_value_ as clip
from torch.optim import Adam
import torch.nn as nn
class Trainer:
    def __init__(self):
        self.net = nn.Linear(10, 2)
        self.opt = Adam(self.net.parameters())
    def update(self, loss):
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        clip(self.net.parameters(), 0.5)
t = Trainer()
while True:
    x, y = next(stream)
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
    net(x).mean().backward()
    sgd.step()
    torch.nn.utils.clip_grad_norm_(list(net.parameters()), args.clip)
    sgd.zero_grad()
""",
    """
import torch
def one_epoch(net, loader, optimizer, limit):
    for x, y in loader:
        if len(x) < 2:
            continue
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(x), y).backward()
        optimizer.step()
        torch.nn.utils.clip_grad_norm_(net.parameters(), limit)
""",
)

GOOD = (
    """
import numpy as np
import torch
def one_epoch(net, loader, optimizer, limit):
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(x), y).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), limit)
        optimizer.step()
def measured_epoch(net, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(x), y).backward()
        optimizer.step()
        print(torch.nn.utils.clip_grad_norm_(net.parameters(), float("inf")))
def measured_without_limit(net, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(x), y).backward()
        optimizer.step()
        print(torch.nn.utils.clip_grad_norm_(net.parameters(), np.inf))
def measured_below_a_large_limit(net, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(x), y).backward()
        optimizer.step()
        print(torch.nn.utils.clip_grad_norm_(net.parameters(), 1e9))
def other_half(net, head, loader, optimizer, update_head):
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(head(net(x)), y).backward()
        optimizer.step()
        torch.nn.utils.clip_grad_norm_(head.parameters(), 1.0)
        update_head()
""",
    """
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer
class Clipping(Optimizer):
    def __init__(self, params, lr, max_grad_norm=1.0):
        super().__init__(params, dict(lr=lr, max_grad_norm=max_grad_norm))
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    clip_grad_norm_(p, group["max_grad_norm"])
                    p.data.add_(p.grad, alpha=-group["lr"])
model = nn.Linear(8, 2)
optimizer = Clipping(model.parameters(), lr=0.1)
for x, y in loader:
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.mixing = nn.Linear(8, 2), nn.Parameter(torch.zeros(2))
    def forward(self, x):
        return self.body(x) * self.mixing
net = Net()
mixer = torch.optim.Adam([net.mixing], lr=0.01)
optimizer = torch.optim.SGD(net.body.parameters(), lr=0.1)
for (x, y), (u, v) in zip(train_loader, search_loader):
    mixer.zero_grad()
    nn.functional.cross_entropy(net(u), v).backward()
    mixer.step()
    optimizer.zero_grad()
    mixer.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    nn.utils.clip_grad_norm_(net.parameters(), 5.0)
    optimizer.step()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(nn.utils.clip_grad_norm_(model.parameters(), float("inf")))
""",
    """
import torch
from torch import nn
a, b = nn.Linear(10, 2), nn.Linear(10, 2)
opt_a, opt_b = torch.optim.SGD(a.parameters(), lr=0.1), torch.optim.SGD(b.parameters(), lr=0.1)
for x, y in data:
    opt_a.zero_grad()
    nn.functional.cross_entropy(a(x), y).backward()
    opt_a.step()
    opt_b.zero_grad()
    nn.functional.cross_entropy(b(x), y).backward()
    nn.utils.clip_grad_norm_(b.parameters(), 1.0)
    opt_b.step()
""",
    """
import torch
from torch import nn
critic = nn.Linear(10, 1)
optimizer = torch.optim.RMSprop(critic.parameters(), lr=5e-5)
for x in data:
    optimizer.zero_grad()
    critic(x).mean().backward()
    optimizer.step()
    for p in critic.parameters():
        p.data.clamp_(-0.01, 0.01)
""",
)


_INFINITE = ("torch.inf", "numpy.inf", "numpy.Inf", "numpy.infty", "math.inf")
_OUT_OF_REACH = 1e6


def check(context: Context) -> Iterator[Finding]:
    """Find clipping behind the step, with none before it."""
    every = list(updates(context))
    for update in every:
        clips = update.clips()
        backwards = update.backwards(sure=True)
        if not backwards or not clips or not update.zeros:
            continue
        last = update.steps[-1]
        first = min(b.number for b in backwards)
        if any(first < c.number < last.number for c in clips) or last.number < first:
            continue
        late = [
            c
            for c in clips
            if c.number > last.number
            and same_guards(c, last)
            and happens_with(last, c, update.loop.frame)
            and not any(_for_another(c, other, update) for other in every)
        ]
        if late and not _measures(context, late):
            yield _finding(context, late, last, update.name())
    for given in given_updates(context):
        late = [c for c in given.clips if c.number > given.step.number and belongs_to_loss(given.loop, c)]
        all_late = late and len(late) == len(given.clips) and given.backward.number < given.step.number
        if all_late and not _measures(context, late):
            yield _finding(context, late, given.step, "optimizer")


def _measures(context: Context, clips: list[Event]) -> bool:
    """Whether a clipping to no limit, or to one that no norm comes near, only measures the norm."""
    limits = [clip.argument(1, "max_norm") for clip in clips]
    if any(name_of(settle(limit)) in _INFINITE for limit in limits if limit is not None):
        return True
    return any(isinstance(v, (int, float)) and v >= _OUT_OF_REACH for v in map(context.value, limits))


def _finding(context: Context, late: list[Event], step: Event, name: str) -> Finding:
    return context.finding(
        RULE,
        late[0],
        "gradients are clipped after the optimizer has used them: the clipping has no effect",
        evidence=[Evidence("clippings before the step", 0), Evidence("clippings after the step", len(late))],
        fix=Fix(
            title="clip between backward() and step()",
            safe=False,
            instruction=f"move the clipping before {name}.step()",
            expected="the step uses clipped gradients",
        ),
        related=[(step, "the optimizer steps here")],
    )


def _for_another(clip: Event, other: Update, update: Update) -> bool:
    """Whether a clipping comes before the step of another optimizer, whose parameters it covers as well."""
    if other.optimizer is update.optimizer or other.loop is not update.loop:
        return False
    return clip in other.clips() and other.steps[-1].number > clip.number
