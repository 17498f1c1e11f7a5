"""The number of accumulation steps can become 0 or a fraction.

## What it does
Looks at how the number of accumulated batches is computed: an integer division by something that is not known before the launch (the number of ranks, say), without a check that it divides.

## Why
`64 // (batch * world_size)` is 0 as soon as the divisor exceeds 64: `i % 0` raises an error, and `range(0)` trains on nothing.
Where it does not divide, the batch that is trained with differs from the one that was asked for.

## Fix
Assert that it divides: `assert total % (batch * world_size) == 0`.

## When to ignore
When the launch script guarantees it.

## References
- PyTorch documentation, `torchrun`: `WORLD_SIZE`
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.updates import Accumulation, accumulation, updates
from preflight.check.rule import Rule
from preflight.source.script import Script
from preflight.source.values import Choice, Known, Obj, Phi, Unknown, Value, options_of, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="accumulation-steps-can-be-zero",
    code="ACC003",
    severity="warning",
    confidence="likely",
    needs=("training_loop", "optimizer"),
    layer="C",
    tags=("accumulation",),
)

BAD = (
    """
import os, torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
accumulate = 8 // int(os.environ["WORLD_SIZE"])
for step in range(100):
    for micro in range(accumulate):
        (model(next(batches)).mean() / accumulate).backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    """
from torch.optim import Adam as A
import torch.nn as nn
import torch.distributed as dist
class Trainer:
    def __init__(self, total, batch):
        self.net = nn.Linear(4, 4)
        self.opt = A(self.net.parameters())
        self.every = total // (batch * dist.get_world_size())
    def train(self):
        for i, x in enumerate(loader):
            (self.net(x).mean() / self.every).backward()
            if (i + 1) % self.every == 0:
                self.opt.step()
                self.opt.zero_grad()
Trainer(512, 8).train()
""",
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--total", type=int, default=16)
parser.add_argument("--batch", type=int, default=32)
args = parser.parse_args()
net = torch.nn.Linear(4, 1)
opt = torch.optim.Adam(net.parameters())
k = args.total // args.batch
for i, x in enumerate(data):
    (net(x).mean() / k).backward()
    if (i + 1) % k == 0:
        opt.step()
        opt.zero_grad()
""",
)

GOOD = (
    """
import os, torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
world = int(os.environ["WORLD_SIZE"])
assert 8 % world == 0
accumulate = 8 // world
for step in range(100):
    for micro in range(accumulate):
        (model(next(batches)).mean() / accumulate).backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    """
import torch
import torch.distributed as dist
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
accumulate = max(1, 64 // dist.get_world_size())
for step in range(100):
    for micro in range(accumulate):
        (model(next(batches)).mean() / accumulate).backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--accumulate", type=int, default=0)
args = parser.parse_args()
net = torch.nn.Linear(4, 1)
opt = torch.optim.Adam(net.parameters())
for i, x in enumerate(data):
    loss = net(x).mean()
    if args.accumulate > 1:
        (loss / args.accumulate).backward()
        if (i + 1) % args.accumulate == 0:
            opt.step()
            opt.zero_grad()
    else:
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--total", type=int, default=64)
parser.add_argument("--batch", type=int, default=32)
args = parser.parse_args()
net = torch.nn.Linear(4, 1)
opt = torch.optim.Adam(net.parameters())
if args.total % args.batch:
    raise ValueError("total has to be a multiple of batch")
k = args.total // args.batch
for i, x in enumerate(data):
    (net(x).mean() / k).backward()
    if (i + 1) % k == 0:
        opt.step()
        opt.zero_grad()
""",
    """
import torch
import torch.distributed as dist
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total, batch = 64, 4
share = total // dist.get_world_size()
rounds = share // batch
assert total == batch * rounds * dist.get_world_size()
for step in range(100):
    for micro in range(rounds):
        (model(next(batches)).mean() / rounds).backward()
    optimizer.step()
    optimizer.zero_grad()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Look at what each k was computed from."""
    for update in updates(context):
        held = accumulation(update)
        if held is None or held.steps is None or held.frame.shadow:
            continue
        base = settle(held.steps)
        if isinstance(base, Known) and base.value == 0 and not isinstance(base.value, bool):
            yield _finding(
                context, base, held, "the number of accumulation steps is 0: there is no step", "error", "0", None
            )
            continue
        place = _division(held.steps)
        if place is None:
            continue
        script, node = place
        if _checked(script, node):
            continue
        shown = script.segment(node)
        text = f"the number of accumulation steps, {shown}, is not checked: it becomes 0, or a remainder is dropped, for some numbers of ranks"
        yield _finding(context, (script, node), held, text, None, shown, node)


def _finding(
    context: Context,
    place: Value | tuple[Script, ast.AST],
    held: Accumulation,
    text: str,
    severity: str | None,
    shown: str,
    node: ast.AST | None,
) -> Finding:
    edit = None
    if isinstance(node, ast.BinOp) and isinstance(place, tuple):
        left, right = place[0].segment(node.left), place[0].segment(node.right)
        right = f"({right})" if isinstance(node.right, ast.BinOp) else right
        edit = context.insert_before(place, f"assert {left} % {right} == 0")
    return context.finding(
        RULE,
        place,
        text,
        severity="error" if severity == "error" else None,
        evidence=[Evidence("number of accumulation steps", shown)],
        fix=Fix(
            title="assert that it divides",
            safe=False,
            edits=edits(edit) if edit is not None else (),
            instruction="assert that the division has no remainder before it is used",
            expected="a launch with the wrong number of ranks ends with a clear error",
        ),
        related=[((held.frame.script, held.frame.node), "used here")]
        if held.frame.script is not None and held.frame.node is not None
        else [],
    )


def _division(value: Value, depth: int = 0) -> tuple[Script, ast.AST] | None:
    """The integer division by something not known that a value is the result of, or None."""
    if isinstance(value, (Choice, Phi)):
        found = [_division(o, depth + 1) for o in options_of(value, limit=4)] if depth < 3 else []
        return found[0] if len(found) == 1 else None
    node = value.site.node if value.site is not None else None
    if isinstance(value, Unknown) and value.site is not None and len(value.parents) == 2:
        floor = isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, ast.FloorDiv)
        if floor and node is not None and not isinstance(settle(value.parents[1]), Known):
            return value.site.script, node
    if (
        isinstance(value, Obj)
        and value.kind == "op"
        and value.name == "//"
        and value.site is not None
        and node is not None
    ):
        return (value.site.script, node) if not isinstance(settle(value.args[1]), Known) else None
    return None


def _checked(script: Script, node: ast.AST) -> bool:
    """Whether a test with the remainder of the same number is anywhere in the script."""
    left = node.left if isinstance(node, ast.BinOp) else node.target if isinstance(node, ast.AugAssign) else None
    wanted = _plain_dump(left)
    held = _plain_dump(_name_of(script, node))
    for statement in ast.walk(script.tree):
        test = statement.test if isinstance(statement, (ast.Assert, ast.If)) else None
        for part in ast.walk(test) if test is not None else ():
            if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod) and _plain_dump(part.left) == wanted:
                return True
            if isinstance(statement, ast.Assert) and isinstance(part, ast.Compare) and _plain_dump(part.left) == wanted:
                return True
            if isinstance(statement, ast.Assert) and held and isinstance(part, ast.Compare) and _multiplied(part, held):
                return True
    return False


def _name_of(script: Script, node: ast.AST) -> ast.AST | None:
    """What the result of a division is called."""
    for statement in ast.walk(script.tree):
        if isinstance(statement, ast.Assign) and statement.value is node and len(statement.targets) == 1:
            return statement.targets[0]
    return node.target if isinstance(node, ast.AugAssign) else None


def _multiplied(comparison: ast.Compare, held: str) -> bool:
    """Whether a comparison asks that something be a product with the number: ``total == batch * steps``."""
    products = [
        part
        for side in (comparison.left, *comparison.comparators)
        for part in ast.walk(side)
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mult)
    ]
    equal = len(comparison.ops) == 1 and isinstance(comparison.ops[0], ast.Eq)
    return equal and any(_plain_dump(factor) == held for p in products for factor in (p.left, p.right))


def _plain_dump(node: ast.AST | None) -> str:
    return ast.unparse(node) if node is not None else ""
