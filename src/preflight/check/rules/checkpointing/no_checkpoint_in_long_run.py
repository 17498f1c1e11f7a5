"""A long run writes no checkpoint.

## What it does
Looks for a training loop of 100 epochs or 50,000 steps or more, or one without an end, in a script that saves nothing.

## Why
A run of days meets a failure of its machine, a time limit or a loss that turns into NaN.
Without a checkpoint all of it is lost: at 1000 GPU hours and 2 dollars per hour that is 2000 dollars.

## Fix
Save the states of model, optimizer and scheduler every so often.

## When to ignore
When the run takes minutes, or when something that the script calls saves for it.

## References
- PyTorch, "Saving and loading a general checkpoint for inference and/or resuming training"
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.counts import passes
from preflight.check.rule import Rule
from preflight.source.training import TrainingLoop
from preflight.source.values import Known, Obj, options_of, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="no-checkpoint-in-long-run",
    code="CKP009",
    severity="info",
    confidence="likely",
    needs=("training_loop", "complete"),
    tags=("checkpoint",),
)
EPOCHS = 100
STEPS = 50_000

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(300):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    """
import argparse, torch
import torch.nn.functional as F
parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100000)
args = parser.parse_args()
net = torch.nn.Linear(10, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
def step(x, y):
    opt.zero_grad()
    F.cross_entropy(net(x), y).backward()
    opt.step()
for number in range(args.steps):
    step(*next(batches))
""",
    """
from torch import nn
from torch.optim import AdamW as Opt
class Trainer:
    def __init__(self):
        self.net = nn.Linear(10, 2)
        self.opt = Opt(self.net.parameters())
    def run(self):
        while True:
            x, y = next(batches)
            self.opt.zero_grad()
            nn.functional.cross_entropy(self.net(x), y).backward()
            self.opt.step()
Trainer().run()
""",
)

GOOD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(300):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if epoch % 50 == 0:
        model.save_pretrained("out")
""",
    """
import torch
from torch import nn
from mylibrary import keep
model = nn.Linear(10, 2)
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(300):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    keep(model)
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(10):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
)

_WRITES = (
    ".save",
    ".save_",
    "torch.save",
    "safetensors.",
    "pickle.dump",
    "joblib.dump",
    "numpy.save",
    "torch.jit.save",
)


def check(context: Context) -> Iterator[Finding]:
    """Find long loops in scripts that write nothing."""
    loop = next((t for t in context.reading.loops if t.steps and not t.frame.shadow), None)
    if loop is None or context.trace.calls_under(*_WRITES) or _may_save(context, loop):
        return
    long = _long(context, loop)
    if long is None:
        return
    yield context.finding(
        RULE,
        loop.backwards[0],
        f"the run has {long} and saves nothing: a failure near its end loses all of it",
        evidence=[Evidence("length of the run", long), Evidence("calls that save", 0)],
        fix=Fix(
            title="save a checkpoint every so often",
            instruction="torch.save the states of model, optimizer and scheduler, and load them on resume",
            expected="a failure costs the time since the last checkpoint",
        ),
    )


def _long(context: Context, loop: TrainingLoop) -> str | None:
    for frame in [loop.frame, *loop.outer]:
        if isinstance(frame.node, ast.While):
            test = settle(frame.value) if frame.value is not None else None
            if (
                isinstance(test, Known)
                and test.value
                and not any(isinstance(n, ast.Break) for n in ast.walk(frame.node))
            ):
                return "no end"
            continue
        count = passes(context, frame)
        number = count.number if count is not None else None
        if number is not None and number >= (STEPS if frame is loop.frame else EPOCHS):
            return f"{number:.0f} {'steps' if frame is loop.frame else 'epochs'}"
    return None


def _may_save(context: Context, loop: TrainingLoop) -> bool:
    """Whether something that is not seen is given the model, or writes its parameters."""
    models = {id(m) for m in context.reading.models}
    for event in context.trace.events:
        if event.name == "builtins.open" and event.context.within(loop.frame):
            return True
        if event.inlined or event.name.startswith(("torch.", "builtins.")) or event.name == "()":
            continue
        for value in (*event.args, *event.kwargs.values()):
            if any(isinstance(o, Obj) and id(o) in models for o in options_of(value)):
                return True
    return False
