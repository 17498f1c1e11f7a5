"""Clipping works on parameters that the optimizer does not hold.

## What it does
Compares what a clipping call is given with what the optimizers of the loop hold, and finds clipping that touches none of it.

## Why
The gradients that go into the step stay as they are, so the protection against a bad batch is not there, although the script seems to have it.

## Fix
Clip the parameters that the optimizer holds.

## When to ignore
When the clipped gradients are used by other means than an optimizer.

## References
- PyTorch documentation, `torch.nn.utils.clip_grad_norm_`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.parameters import holding_of, listed
from preflight.check.queries.updates import clipped, updates
from preflight.check.rule import Rule
from preflight.source.evaluate.library.methods import is_module
from preflight.source.trace import Event, provenance
from preflight.source.training import TrainingLoop
from preflight.source.values import Choice, Phi
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="clip-of-other-parameters",
    code="OPT016",
    severity="error",
    confidence="likely",
    needs=("training_loop", "optimizer"),
    layer="D",
    tags=("optimizer", "clipping"),
)

BAD = (
    """
import torch
from torch import nn
teacher, student = nn.Linear(10, 2), nn.Linear(10, 2)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for x, y in data:
    optimizer.zero_grad()
    nn.functional.cross_entropy(student(x), y).backward()
    nn.utils.clip_grad_norm_(teacher.parameters(), 1.0)
    optimizer.step()
""",
    """
from torch.nn.utils import clip_grad_norm_ as clip
from torch.optim import Adam
import torch.nn as nn
class Trainer:
    def __init__(self):
        self.actor, self.critic = nn.Linear(10, 2), nn.Linear(10, 1)
        self.opt = Adam(self.actor.parameters())
    def update(self, loss):
        self.opt.zero_grad()
        loss.backward()
        clip(self.critic.parameters(), 0.5)
        self.opt.step()
t = Trainer()
for x, y in loader:
    t.update(nn.functional.mse_loss(t.actor(x), y))
""",
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--clip", type=float, default=1.0)
args = parser.parse_args()
class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.text = torch.nn.Linear(4, 4)
        self.image = torch.nn.Linear(4, 1)
    def forward(self, x):
        return self.image(self.text(x))
net = Two()
sgd = torch.optim.SGD(net.image.parameters(), lr=0.1)
for x in data:
    sgd.zero_grad()
    net(x).mean().backward()
    torch.nn.utils.clip_grad_norm_(net.text.parameters(), args.clip)
    sgd.step()
""",
)

GOOD = (
    """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(10, 10), nn.Linear(10, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    nn.utils.clip_grad_norm_(model[0].parameters(), 1.0)
    optimizer.step()
""",
    """
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
wrapped = DDP(model)
for x, y in data:
    optimizer.zero_grad()
    nn.functional.cross_entropy(wrapped(x), y).backward()
    nn.utils.clip_grad_norm_(wrapped.parameters(), 1.0)
    optimizer.step()
""",
    """
import torch
from absent_package.networks import Net
class Trainer:
    def __init__(self, model, device):
        self.model = model.to(device)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    def fit(self, loader):
        for x, y in loader:
            self.optimizer.zero_grad()
            torch.nn.functional.cross_entropy(self.model(x), y).backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
Trainer(Net(width=3), "cuda").fit(batches)
""",
    """
import torch
from absent_package import networks, spread
network = networks.make(depth=3)
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
spread_out = spread(network)
for x, y in batches:
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(spread_out(x), y).backward()
    torch.nn.utils.clip_grad_norm_(spread_out.parameters(), 1.0)
    optimizer.step()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find clipping that covers nothing of what any optimizer of the script holds."""
    optimizers = context.reading.made("optimizer")
    holdings = [holding_of(context.reading, o) for o in optimizers]
    if not holdings or not all(h.firm for h in holdings):
        return
    held = {i for h in holdings for i in h.members}
    for loop in dict.fromkeys(u.loop for u in updates(context)):
        for event in loop.clips:
            if not _unrelated(event, held) or _also_clipped(loop, event, held):
                continue
            owner = listed(clipped(event)).parts[0].owner
            yield context.finding(
                RULE,
                event,
                "gradient clipping is given parameters that no optimizer holds: what the optimizer uses is not clipped",
                evidence=[Evidence("parameters of the optimizers among those clipped", 0)],
                fix=Fix(
                    title="clip the parameters that the optimizer holds",
                    safe=False,
                    instruction="give the clipping call the model (or list of parameters) that the optimizer was built with",
                    expected="the step uses clipped gradients",
                ),
                related=[(optimizers[0], "the optimizer is made here"), (owner, "what is clipped is made here")],
            )


def _unrelated(event: Event, held: set[int]) -> bool:
    given = clipped(event)
    mine = listed(given)
    if isinstance(given, (Choice, Phi)) or not mine.firm or mine.members & held:
        return False
    return not any(id(v) in held for p in mine.parts if not is_module(p.owner) for v in provenance(p.owner, 60))


def _also_clipped(loop: TrainingLoop, event: Event, held: set[int]) -> bool:
    """Whether another call clips what the optimizers hold: then this one is for something else."""
    return any(e is not event and not _unrelated(e, held) for e in loop.clips)
