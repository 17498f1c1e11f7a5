"""Gradients are never set to zero.

## What it does
Looks for a training loop that computes gradients and steps an optimizer, and never clears the gradients in between.

## Why
PyTorch adds new gradients to the old ones.
Without clearing, step n uses the sum of the gradients of all steps so far: the effective learning rate grows with every step until training diverges, without an error.

## Fix
Call `optimizer.zero_grad()` once per step, before `backward()` or after `step()`.

## When to ignore
When gradients are cleared by code that cannot be seen from the script, such as a compiled extension.

## References
- PyTorch, "Zeroing out gradients in PyTorch" (recipes)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.rule import Rule
from preflight.source.trace import Context as Place
from preflight.source.training import TrainingLoop
from preflight.source.values import options_of
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="gradients-never-zeroed",
    code="OPT001",
    severity="error",
    confidence="likely",
    needs=("training_loop", "complete"),
    layer="D",
    tags=("optimizer",),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
""",
    """
import argparse, torch
import torch.nn as nn
class Trainer:
    def __init__(self, args):
        self.net = nn.Linear(10, 2)
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=args.lr)
    def step(self, x, y):
        loss = nn.functional.mse_loss(self.net(x), y)
        loss.backward()
        self.opt.step()
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=1e-3)
    trainer = Trainer(parser.parse_args())
    for epoch in range(10):
        for x, y in loader:
            trainer.step(x, y)
main()
""",
    """
from torch.optim import Adam as Opt
from torch.nn import Linear
from torch.nn.functional import cross_entropy as ce
net = Linear(10, 2)
o = Opt(net.parameters())
def update(loss):
    loss.backward()
    o.step()
while True:
    batch = next(it)
    update(ce(net(batch[0]), batch[1]))
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    optimizer.zero_grad()
    for i, (x, y) in enumerate(data):
        (nn.functional.cross_entropy(model(x), y) / 4).backward()
        if (i + 1) % 4 == 0:
            optimizer.step()
""",
)

GOOD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    for p in model.parameters():
        p.grad = None
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1)
for x, y in data:
    def closure():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        return loss
    optimizer.step(closure)
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def clear(module):
    module.zero_grad(set_to_none=True)
for i, (x, y) in enumerate(data):
    loss = nn.functional.cross_entropy(model(x), y) / 4
    loss.backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
        clear(model)
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100):
    optimizer.zero_grad()
    for micro in range(4):
        x, y = draw()
        (nn.functional.cross_entropy(model(x), y) / 4).backward()
        if micro == 3:
            optimizer.step()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find loops with a step and without anything that clears gradients."""
    for loop in context.reading.loops:
        if not loop.steps or _cleared(context, loop):
            continue
        step = loop.steps[0]
        # DeepSpeed's engine clears gradients in its own step.
        if all(context.roles.of(s.receiver) == "engine" for s in loop.steps):
            continue
        name = step.script.segment(step.node.func.value) if hasattr(step.node, "func") else ""
        target = name if name.isidentifier() or name.replace(".", "").isidentifier() else "optimizer"
        if context.roles.of(step.receiver) == "scaler" and step.args:
            target = step.script.segment(step.node.args[0]) or target  # type: ignore[attr-defined]
        edit = context.insert_before(loop.backwards[0], f"{target}.zero_grad()") if loop.micro is None else None
        yield context.finding(
            RULE,
            loop.backwards[0],
            "gradients are computed and the optimizer steps, but nothing clears the gradients: each step uses the sum of all steps so far",
            evidence=[
                Evidence("backward in the loop", len(loop.backwards)),
                Evidence("optimizer steps in the loop", len(loop.steps)),
                Evidence("calls that clear gradients", 0),
            ],
            fix=Fix(
                title=f"call {target}.zero_grad() before backward()",
                safe=False,
                edits=edits(edit) if edit is not None else (),
                instruction=f"call {target}.zero_grad() once per optimizer step",
                expected="each step uses the gradient of its own batch",
            ),
            related=[(step, "the optimizer steps here")],
        )


def _cleared(context: Context, loop: TrainingLoop) -> bool:
    if loop.zeros or (loop.outer and _steps_once(loop) and _clears_around(context, loop.outer[0], loop.frame)):
        return True
    for store in context.trace.stores:
        if store.name == "grad" and store.context.within(loop.frame):
            return True
    # A step of a wrapper whose code is not seen may clear; so may a function that is given the optimizer or model.
    optimizers = {id(o) for s in loop.steps for v in (s.receiver, *s.args) for o in options_of(v)}
    for event in loop.events:
        if event.name in (".zero_", ".fill_") and any(
            getattr(o, "name", "") == "grad" for o in options_of(event.receiver)
        ):
            return True
        if event.inlined or event.name.startswith((".", "builtins.", "torch.")) or event.name == "()":
            continue
        if any(id(o) in optimizers for a in (*event.args, *event.kwargs.values()) for o in options_of(a)):
            return True
    return False


def _steps_once(loop: TrainingLoop) -> bool:
    """Whether each step is bound to one pass of the loop, as by ``if micro == last:``; every n-th pass may be several."""
    for step in loop.steps:
        tests = [f.node.test for f in step.context.frames() if f.within(loop.frame) and isinstance(f.node, ast.If)]
        if not tests or any(isinstance(part, ast.Mod) for test in tests for part in ast.walk(test)):
            return False
    return True


def _clears_around(context: Context, outer: Place, inner: Place) -> bool:
    """Whether gradients are cleared in each pass of the loop around, beside the loop that steps."""
    cleared = context.trace.calls(".zero_grad")
    return any(event.context.within(outer) and not event.context.within(inner) for event in cleared)
