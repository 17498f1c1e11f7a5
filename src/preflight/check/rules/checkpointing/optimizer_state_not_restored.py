"""The state of the optimizer is not saved or not restored.

## What it does
Looks at scripts that go on from a checkpoint without the state of their optimizer.

## Why
Adam keeps two running averages per parameter, SGD with momentum keeps one.
After a resume without them the first steps are as rough as at the beginning, at a learning rate made for the middle.
The loss jumps, and the resumed run is not the run that was interrupted.

## Fix
Save `optimizer.state_dict()` beside the model's, and call `optimizer.load_state_dict()` on resume.

## When to ignore
When the optimizer has no state (SGD without momentum), or a fresh start of it is wanted.

## References
- PyTorch, "Saving and loading a general checkpoint for inference and/or resuming training"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.states import Resume, key_of, restored, resume
from preflight.check.rule import Rule
from preflight.source.values import Known, Obj, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="optimizer-state-not-restored",
    code="CKP001",
    severity="warning",
    confidence="likely",
    needs=("optimizer", "training_loop", "complete"),
    tags=("checkpoint",),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.Adam(model.parameters())
start = 0
if resume:
    checkpoint = torch.load("last.pt")
    model.load_state_dict(checkpoint["model"])
    start = checkpoint["epoch"] + 1
for epoch in range(start, 10):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.save({"model": model.state_dict(), "epoch": epoch}, "last.pt")
""",
    """
import argparse, torch
import torch.nn as nn
from torch.optim import AdamW
parser = argparse.ArgumentParser()
parser.add_argument("--resume", default="")
args = parser.parse_args()
class Trainer:
    def __init__(self):
        self.net = nn.Linear(10, 2)
        self.opt = AdamW(self.net.parameters())
        self.epoch = 0
    def save(self, epoch):
        state = dict(net=self.net.state_dict(), opt=self.opt.state_dict(), epoch=epoch)
        torch.save(state, "last.pt")
    def load(self, path):
        state = torch.load(path)
        self.net.load_state_dict(state["net"])
        self.epoch = state["epoch"] + 1
    def fit(self):
        for epoch in range(self.epoch, 10):
            for x, y in loader:
                self.opt.zero_grad()
                loss = nn.functional.cross_entropy(self.net(x), y)
                loss.backward()
                self.opt.step()
            self.save(epoch)
trainer = Trainer()
if args.resume:
    trainer.load(args.resume)
trainer.fit()
""",
    """
import os
import torch as th
from torch import nn
net = nn.Linear(10, 2)
sgd = th.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
def restore(path):
    if not os.path.exists(path):
        return 0
    saved = th.load(path, map_location="cpu")
    net.load_state_dict(saved["weights"])
    return saved["step"]
first = restore("last.pt")
for step in range(first, 10000):
    x, y = next(batches)
    sgd.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    sgd.step()
    if step % 1000 == 0:
        th.save({"weights": net.state_dict(), "step": step + 1}, "last.pt")
""",
)

GOOD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.Adam(model.parameters())
start = 0
if resume:
    checkpoint = torch.load("last.pt")
    start = checkpoint["epoch"] + 1
    for thing, key in ((model, "model"), (optimizer, "optimizer")):
        thing.load_state_dict(checkpoint[key])
for epoch in range(start, 10):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, "last.pt")
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
model.load_state_dict(torch.load("pretrained.pt"))
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(10):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.save({"model": model.state_dict()}, "last.pt")
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
checkpoint = torch.load("last.pt")
model.load_state_dict(checkpoint["model"])
for epoch in range(checkpoint["epoch"], 10):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.save({"model": model.state_dict(), "epoch": epoch + 1}, "last.pt")
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Compare what is saved with what is loaded on resume."""
    found = resume(context)
    if found.start is None or not found.loads or restored(context, "model") is False:
        return
    if all(_stateless(o) for o in context.reading.made("optimizer")) or restored(context, "optimizer") is not False:
        return
    yield _finding(context, found)


def _stateless(optimizer: Obj) -> bool:
    if optimizer.name != "torch.optim.SGD" or optimizer.cls is not None or optimizer.open_args:
        return False
    momentum = settle(optimizer.argument(2, "momentum") or Known(0))
    return isinstance(momentum, Known) and momentum.value == 0


def _finding(context: Context, found: Resume) -> Finding:
    saved = next((k for _, table in found.saves if (k := key_of(table, "optimizer", context))), None)
    load = found.loads[0]
    what = f'saved as "{saved}", but never loaded' if saved else "neither saved nor loaded"
    return context.finding(
        RULE,
        load,
        f"training goes on from a checkpoint, but the state of the optimizer is {what}: its averages begin anew",
        evidence=[
            Evidence("optimizer.load_state_dict() calls", 0),
            Evidence("optimizer state in the checkpoint", saved or "none"),
        ],
        fix=Fix(
            title="save and restore the optimizer's state",
            instruction="save optimizer.state_dict() beside the model, and call optimizer.load_state_dict() on resume",
            expected="a resumed run goes on as if it had not stopped",
        ),
        related=[(event, "the checkpoint is written here") for event, _ in found.saves[:1]],
    )
