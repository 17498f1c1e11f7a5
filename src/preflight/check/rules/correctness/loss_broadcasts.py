"""The loss compares (N, 1) with (N,).

## What it does
Reports an elementwise loss whose input and target differ in the number of dimensions: one has a last dimension of size 1 that the other lacks.

## Why
Broadcasting turns (N, 1) against (N,) into (N, N): every output is compared with every target.
The loss is smallest when all outputs equal the mean of the targets, so the network learns a constant; PyTorch only warns.

## Fix
Remove the dimension: `output.squeeze(-1)`, or add it to the target.

## When to ignore
Never.

## References
- PyTorch documentation of MSELoss: input and target have the same shape
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.losses import loss_calls
from preflight.check.queries.shapes import rank, width
from preflight.check.queries.tensors import operand, operation
from preflight.check.rule import Rule
from preflight.source.values import Obj, Value, settle
from preflight.vocabulary.finding import Edit, Finding

RULE = Rule(name="loss-broadcasts", code="SHP001", severity="error", confidence="certain", layer="D", tags=("shapes",))

BAD = (
    """
import torch, torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
x, y = torch.randn(1000, 8), torch.randn(1000)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
criterion = nn.MSELoss()
for epoch in range(10):
    out = model(x)
    criterion(out, y).backward()
""",
    """
import torch
from torch.nn.functional import smooth_l1_loss as loss_fn
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(64, 1)
    def forward(self, x):
        return self.fc(torch.flatten(x, 1))
net = Net()
def step(x, y):
    return loss_fn(net(x), y.view(-1))
for x, y in loader:
    step(x, y).backward()
""",
    """
import argparse, torch
from torch import nn
p = argparse.ArgumentParser()
p.add_argument("--n", type=int, default=64)
args = p.parse_args()
q = nn.Linear(4, 1)
target = torch.zeros(args.n)
state = torch.randn(args.n, 4)
for i in range(10):
    nn.functional.l1_loss(input=q(state), target=target).backward()
""",
)

GOOD = (
    """
import torch, torch.nn as nn
x, y = torch.randn(1000, 8), torch.randn(1000)
model = nn.Linear(8, 1)
for epoch in range(10):
    nn.functional.mse_loss(model(x).squeeze(-1), y).backward()
    nn.functional.mse_loss(model(x), y.unsqueeze(1)).backward()
    nn.functional.mse_loss(model(x)[:, 0], y).backward()
""",
    """
import torch.nn as nn
model = nn.Sequential(nn.Flatten(), nn.Linear(8, 1))
for x, y in loader:
    nn.functional.mse_loss(model(x), y).backward()
""",
)

_ELEMENTWISE = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")


def check(context: Context) -> Iterator[Finding]:
    """Compare the dimensions of both sides of each elementwise loss."""
    for call in loss_calls(context, *_ELEMENTWISE):
        first, second = rank(call.input), rank(call.target)
        if first is None or second is None or {first, second} != {1, 2}:
            continue
        column = call.input if first == 2 else call.target
        if width(column) != 1:
            continue
        shapes = ("(N, 1)", "(N,)") if first == 2 else ("(N,)", "(N, 1)")
        yield context.finding(
            RULE,
            call.event,
            f"{call.name} compares {shapes[0]} with {shapes[1]}: "
            "broadcasting makes (N, N), and every output is compared with every target",
            evidence=[
                Evidence("shape of the input", shapes[0]),
                Evidence("shape of the target", shapes[1]),
                Evidence("shape that is compared", "(N, N)"),
            ],
            fix=Fix(
                title="give both the same shape",
                edits=edits(_edit(context, call.event.node, column)),
                instruction="remove the last dimension with .squeeze(-1)",
                expected="each output is compared with its own target",
            ),
        )


def _edit(context: Context, call: object, column: Value | None) -> Edit | None:
    """Squeeze the column where it is an argument of the call, written as a name or a call."""
    settled = settle(column) if column is not None else None
    if (
        not isinstance(call, ast.Call)
        or not isinstance(settled, Obj)
        or settled.site is None
        or operation(settled) is None
    ):
        return None
    for node in (*call.args, *(k.value for k in call.keywords)):
        if node is settled.site.node and operand(settled) is not None:
            return context.replace(settled, f"{settled.site.script.segment(node)}.squeeze(-1)")
    return None
