"""A list that grows for the whole run is reduced in each step.

## What it does
Looks for `np.mean(losses)`, `sum(losses)` and their kin in each training step, over a list that every step appends to and that nothing empties.

## Why
The list grows by one entry per step, and each step goes through all of it: after a million steps a mean walks through a million numbers, and the sum of all walks grows with the square of the steps.

## Fix
Keep a running mean, or a `collections.deque(maxlen=100)`.

## When to ignore
When the run has some thousand steps.

## References
- Python documentation, `collections.deque`
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.growing_lists import bounded, emptied
from preflight.check.queries.steps import each_pass, step_loops
from preflight.check.rule import Rule
from preflight.source.nodes import encloses
from preflight.source.trace import Event
from preflight.source.training import TrainingLoop
from preflight.source.values import Seq, Value, options_of, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="full-list-reduced-each-step",
    code="MEM016",
    severity="info",
    confidence="likely",
    needs=("training_loop",),
    layer="D",
    tags=("growth",),
)

_HEAD = """
import numpy as np, torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
_STEP = """
    loss = model(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
BAD = (
    _HEAD + "losses = []\nfor x, y in data:" + _STEP + "    losses.append(loss.item())\n    print(np.mean(losses))\n",
    _HEAD
    + "class Log:\n    def __init__(self):\n        self.all = []\n    def add(self, v):\n        self.all.append(v)\n"
    "        return sum(self.all) / len(self.all)\nlog = Log()\nfor x, y in data:"
    + _STEP
    + "    log.add(loss.item())\n",
    _HEAD
    + "import argparse, statistics\nparser = argparse.ArgumentParser()\nparser.add_argument('--log', type=int, default=1)\n"
    "args = parser.parse_args()\nseen = []\nfor x, y in data:" + _STEP + "    seen.append(float(loss))\n"
    "    if args.log:\n        print(statistics.mean(seen))\n",
)
GOOD = (
    _HEAD + "losses = []\nfor i, (x, y) in enumerate(data):" + _STEP + "    losses.append(loss.item())\n"
    "    if i % 100 == 0:\n        print(np.mean(losses))\n    print(np.mean(losses[-100:]))\n",
    _HEAD
    + "from collections import deque\nlast = deque(maxlen=100)\nfor x, y in data:"
    + _STEP
    + "    last.append(loss.item())\n    print(sum(last))\n"
    "    parts = []\n    parts.append(1)\n    print(sum(parts))\n",
    _HEAD
    + "for epoch in range(3):\n    losses = []\n    for x, y in data:"
    + _STEP.replace("\n    ", "\n        ")
    + "        losses.append(loss.item())\n        print(np.mean(losses))\n",
    _HEAD
    + "def epoch():\n    losses = []\n    for x, y in data:"
    + _STEP.replace("\n    ", "\n        ")
    + "        losses.append(loss.item())\n        print(np.mean(losses))\nfor _ in range(3):\n    epoch()\n",
    _HEAD + "losses = []\nfor i, (x, y) in enumerate(data):" + _STEP + "    losses.append(loss.item())\n"
    "    print(np.mean(losses))\n    if i % 100 == 99:\n        del losses[:]\n",
    _HEAD + "losses = []\nfor i, (x, y) in enumerate(data):" + _STEP + "    losses.append(loss.item())\n"
    "    print(np.mean(losses))\n    if i % 100 == 99:\n        losses = []\n",
)

_REDUCTIONS = (
    "numpy.mean",
    "numpy.sum",
    "numpy.median",
    "numpy.average",
    "builtins.sum",
    "builtins.max",
    "builtins.min",
    "statistics.mean",
    "statistics.fmean",
)


def check(context: Context) -> Iterator[Finding]:
    """Find reductions of growing lists in each step."""
    for loop in step_loops(context):
        for event in context.trace.calls(*_REDUCTIONS):
            if not event.context.within(loop.frame) or not each_pass(event.context, loop.frame) or not event.args:
                continue
            held = settle(event.args[0])
            if (
                not isinstance(held, Seq)
                or bounded(held)
                or not _grows(context, held, loop)
                or _made_anew(held, loop, event)
                or emptied(context, held)
            ):
                continue
            yield context.finding(
                RULE,
                event,
                f"{event.name.rpartition('.')[2]}() goes through a list in each step that grows by an entry per step and is never emptied",
                evidence=[Evidence("reduced", "in each step"), Evidence("emptied", False)],
                fix=Fix(
                    title="keep a running mean or the last entries only",
                    instruction="collections.deque(maxlen=100), or add up a number and a count",
                    expected="the same time for each step",
                ),
            )


def _grows(context: Context, held: Value, loop: TrainingLoop) -> bool:
    """Whether each step appends to a list."""
    return any(
        event.context.within(loop.frame) and each_pass(event.context, loop.frame)
        for event in context.trace.calls(".append")
        if any(o is held for o in options_of(event.receiver))
    )


def _made_anew(held: Value, loop: TrainingLoop, event: Event) -> bool:
    """Whether the list is made by the function that reduces it, or anew in a pass of the loop or of one around it."""
    if held.site is None or loop.frame.node is None:
        return True
    node = held.site.node
    called = False  # whether a function around the loop makes the list
    around = False  # whether the walk has reached the training loop
    for frame in event.context.frames():
        around = around or frame is loop.frame
        func = getattr(frame.value, "node", None)
        if frame.kind == "call" and isinstance(func, ast.AST) and encloses(func, node):
            if not around:
                return True
            called = True
        elif frame.kind == "loop" and (called or (around and frame.node is not None and encloses(frame.node, node))):
            return True
    return False
