"""Training loop has no end.

## What it does
Looks for a training loop under `while True` (or `itertools.count()`) with nothing inside that leaves it: no `break`, `return`, `raise`, `sys.exit`.

## Why
The run ends when the job's time is over or somebody kills it.
What comes after the loop, such as the final evaluation and the last checkpoint, never happens.

## Fix
Count steps and leave the loop at a maximum.

## When to ignore
When the run is meant to be stopped by hand.

## References
- none
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.trace import Context as Frame
from preflight.source.values import Known, Obj, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="loop-without-end",
    code="CFG012",
    severity="info",
    confidence="likely",
    needs=("training_loop",),
    layer="C",
    tags=("configuration",),
)

_STEP = """
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
"""

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    x, y = next(batches)"""
    + _STEP,
    """
import itertools, torch
import torch.nn as nn
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def step(x, y):"""
    + _STEP
    + """
for i in itertools.count():
    x, y = next(batches)
    step(x, y)
""",
    """
import argparse, torch
from torch import nn
p = argparse.ArgumentParser()
p.add_argument("--lr", type=float, default=0.1)
args = p.parse_args()
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
class Trainer:
    def run(self):
        while 1:
            for x, y in loader:
                self.step(x, y)
    def step(self, x, y):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
Trainer().run()
""",
)

GOOD = (
    BAD[0] + "    if done():\n        break\n",
    BAD[0].replace("while True:", "while step < 100:"),
    BAD[1].replace("    step(x, y)\n", "    step(x, y)\n    if i > 1000:\n        raise SystemExit\n"),
    BAD[0] + "    stop.after(model)\n    sys.exit(0)\n",
)

_ENDS = ("exit", "quit", "_exit", "abort")


def check(context: Context) -> Iterator[Finding]:
    """Find training loops that nothing leaves."""
    for loop in context.reading.loops:
        for frame in (loop.frame, *loop.outer):
            if frame.shadow or frame.node is None or frame.script is None or not _endless(frame) or _leaves(frame.node):
                continue
            yield context.finding(
                RULE,
                (frame.script, frame.node),
                "this training loop has no end: nothing inside leaves it",
                evidence=[Evidence("break, return, raise or exit inside", 0)],
                fix=Fix(
                    title="stop at a number of steps",
                    instruction="count steps and leave the loop at a maximum",
                    expected="the run ends by itself, and what follows the loop happens",
                ),
            )


def _endless(frame: Frame) -> bool:
    if isinstance(frame.node, ast.While):
        return isinstance(frame.node.test, ast.Constant) and bool(frame.node.test.value)
    base = settle(frame.value) if frame.value is not None else None
    return isinstance(base, Obj) and base.name == "itertools.count" and not isinstance(base, Known)


def _leaves(loop: ast.AST) -> bool:
    """Whether any statement of the loop's own body can leave it (a break of an inner loop does not)."""
    stack = [(child, False) for child in ast.iter_child_nodes(loop)]
    while stack:
        node, inner = stack.pop()
        if isinstance(node, (ast.Return, ast.Raise)) or (isinstance(node, ast.Break) and not inner):
            return True
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in _ENDS or (name == "next" and len(node.args) == 1 and inner):
                return True
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            continue
        nested = inner or isinstance(node, (ast.For, ast.While, ast.AsyncFor))
        stack.extend((child, nested) for child in ast.iter_child_nodes(node))
    return False
