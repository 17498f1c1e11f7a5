"""The test for the accumulated step is off by one or inverted.

## What it does
Reads the test that decides when accumulated gradients are used: `i % k == 0` with i from 0, and a test that holds where it should not.

## Why
With i from 0, `i % k == 0` steps on the very first batch, with one gradient instead of k, and the last k - 1 of the epoch wait or are lost.
Inverted, it steps k - 1 times out of k.

## Fix
Test `(i + 1) % k == 0`, and step once more on the last batch: `or i + 1 == len(loader)`.

## When to ignore
When k is 1.

## References
- Accelerate documentation, "Performing gradient accumulation"
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.updates import Accumulation, Update, accumulation, updates
from preflight.check.rule import Rule
from preflight.source.values import settle
from preflight.vocabulary.finding import Edit, Finding, Severity

RULE = Rule(
    name="accumulation-off-by-one",
    code="ACC002",
    severity="warning",
    confidence="likely",
    needs=("training_loop", "optimizer"),
    layer="D",
    tags=("accumulation",),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, (x, y) in enumerate(data):
    (nn.functional.cross_entropy(model(x), y) / 4).backward()
    if i % 4 == 0 or i == len(data) - 1:
        optimizer.step()
        optimizer.zero_grad()
""",
    """
from torch.optim import Adam as A
import torch.nn as nn
class Trainer:
    def __init__(self, every=8):
        self.net, self.every = nn.Linear(4, 4), every
        self.opt = A(self.net.parameters())
    def due(self, step):
        return not step % self.every
    def train(self):
        for step, x in enumerate(loader):
            (self.net(x).mean() / self.every).backward()
            if self.due(step) or step + 1 == len(loader):
                self.opt.step()
                self.opt.zero_grad()
Trainer().train()
""",
    """
import argparse, torch
from accelerate import Accelerator
parser = argparse.ArgumentParser()
parser.add_argument("--accumulate", type=int, default=1)
args = parser.parse_args()
accelerator = Accelerator()
net = torch.nn.Linear(4, 1)
opt = torch.optim.Adam(net.parameters())
net, opt, data = accelerator.prepare(net, opt, loader)
for step, x in enumerate(data):
    if step % args.accumulate == 0:
        with accelerator.no_sync(net):
            accelerator.backward(net(x).mean() / args.accumulate)
    else:
        accelerator.backward(net(x).mean() / args.accumulate)
        opt.step()
        opt.zero_grad()
""",
)

GOOD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, (x, y) in enumerate(data, 1):
    (nn.functional.cross_entropy(model(x), y) / 4).backward()
    if i % 4 == 0 or i == len(data):
        optimizer.step()
        optimizer.zero_grad()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, (x, y) in enumerate(data):
    if i % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
    (nn.functional.cross_entropy(model(x), y) / 4).backward()
""",
    """
import torch
from torch import nn
G, D = nn.Linear(8, 8), nn.Linear(8, 1)
opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
for i, x in enumerate(data):
    opt_d.zero_grad()
    opt_g.zero_grad()
    fake = G(x)
    if i % 5 == 0:
        (-D(fake).mean()).backward()
        opt_g.step()
    else:
        (D(fake.detach()).mean() - D(x).mean()).backward()
        opt_d.step()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, (x, y) in enumerate(data):
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()
    if i % 100 == 0:
        print(i)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Read the test of each accumulated step."""
    for update in updates(context):
        held = accumulation(update)
        if held is None or held.kind != "test" or not update.steps[0].number > update.backwards()[0].number:
            continue
        hard_one = (
            held.count == 1 and not getattr(settle(held.steps), "soft", False) if held.steps is not None else False
        )
        found = None if hard_one else _wrong(update, held)
        if found is None:
            continue
        severity, text, arithmetic = found
        edit = _edit(context, held) if severity == "warning" and held.divisible else None
        yield context.finding(
            RULE,
            update.steps[0] if held.frame.node is None else (held.frame.script or update.steps[0].script, _test(held)),
            text,
            severity=severity,
            evidence=[
                Evidence("batches per step", held.count),
                Evidence("passes in which the step happens", arithmetic),
            ],
            fix=Fix(
                title="step where (i + 1) is a multiple of k, and on the last batch",
                safe=False,
                edits=edits(edit) if edit is not None else (),
                instruction="test (i + 1) % k == 0, or the last batch",
                expected="each step uses k batches",
            ),
            related=[(update.steps[0], "the optimizer steps here")],
        )


def _wrong(update: Update, held: Accumulation) -> tuple[Severity, str, str] | None:
    if held.divisible is False and update.alone and _both_sides(update, held):
        text = "the test of the accumulated step is inverted: the optimizer steps in k - 1 of k batches, and the other one is left over"
        return "warning", text, "i % k = 1, 2, ..., k - 1"
    if held.divisible is True and held.from_zero:
        # ``or i == len(loader) - 1`` steps once more.
        rest = "" if _with_others(held) else ", and the last ones of the epoch are left over"
        text = f"the step comes where i % k == 0 and i starts at 0: the first step uses one batch{rest}"
        return "warning", text, "i = 0, k, 2k, ..."
    return None


def _with_others(held: Accumulation) -> bool:
    """Whether the step comes in other cases, too."""
    test = getattr(held.frame.node, "test", None)
    return isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or)


def _both_sides(update: Update, held: Accumulation) -> bool:
    """Whether gradients are computed where the step does not happen."""
    return any(not b.context.within(held.frame) for b in update.backwards())


def _test(held: Accumulation) -> ast.AST:
    node = held.frame.node
    return node.test if isinstance(node, (ast.If, ast.IfExp)) else node  # type: ignore[return-value]


def _edit(context: Context, held: Accumulation) -> Edit | None:
    node = held.frame.node
    if not isinstance(node, ast.If) or held.frame.script is None:
        return None
    for part in ast.walk(node.test):
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod) and isinstance(part.left, ast.Name):
            return context.replace((held.frame.script, part.left), f"({part.left.id} + 1)")
    return None
