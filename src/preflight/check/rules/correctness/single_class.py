"""Cross entropy or soft-max over a single class.

## What it does
Reports cross entropy, soft-max and log-soft-max over a dimension of size 1.

## Why
Soft-max over one number is always 1, and cross entropy over one class is always 0.
All gradients are zero: nothing is learned, and the loss looks perfect.

## Fix
For two classes with one output, use `BCEWithLogitsLoss`; otherwise give the layer as many outputs as there are classes.

## When to ignore
Never.

## References
- PyTorch documentation of CrossEntropyLoss
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.losses import loss_calls
from preflight.check.queries.shapes import channels, rank, width
from preflight.check.queries.tensors import graph, operand, operation, option, source_text
from preflight.check.rule import Rule
from preflight.source.values import plain
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="single-class", code="SHP002", severity="error", confidence="certain", layer="D", tags=("shapes", "loss")
)

BAD = (
    """
import torch.nn as nn
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 1))
criterion = nn.CrossEntropyLoss()
for x, y in loader:
    criterion(model(x), y).backward()
""",
    """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(8, 1)
    def forward(self, x):
        return torch.softmax(self.fc(x), dim=-1)
net = Net()
for x, y in loader:
    torch.nn.functional.mse_loss(net(x), y).backward()
""",
    """
import argparse
from torch import nn
p = argparse.ArgumentParser()
p.add_argument("--classes", type=int, default=1)
args = p.parse_args()
head = nn.Linear(8, args.classes)
def loss_of(x, y):
    return nn.functional.cross_entropy(head(x), y)
for x, y in loader:
    loss_of(x, y).backward()
""",
    """
from torch import nn
class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.out = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 1, 1)
    def forward(self, x):
        return self.out(self.body(x).relu())
net, criterion = Segmenter(), nn.CrossEntropyLoss()
for x, mask in loader:
    criterion(net(x).float(), mask).backward()
""",
)

GOOD = (
    """
import torch, torch.nn as nn
score, out = nn.Linear(8, 1), nn.Linear(8, 3)
for x, y in loader:
    weights = torch.softmax(score(x), dim=1)
    nn.functional.cross_entropy(out((weights * x).sum(1)), y).backward()
""",
    """
import torch.nn as nn
score = nn.Linear(8, 1)
for x, y in loader:
    nn.functional.cross_entropy(score(x).squeeze(-1), y).backward()
""",
    """
from torch import nn
net = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 1, 1))
score = nn.Conv2d(16, 1, 1)
for x, mask in loader:
    nn.functional.binary_cross_entropy_with_logits(net(x), mask).backward()
    nn.functional.cross_entropy(score(x).flatten(1), mask).backward()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Look for soft-max over one number."""
    seen = graph(context)
    for call in loss_calls(context, "cross_entropy"):
        pictures = rank(call.input) in (4, 5) and channels(call.input) == 1
        if pictures or (width(call.input) == 1 and (rank(call.input) or 2) == 2):
            yield _report(context, call.event.result or call.input, call.name, "the loss is always 0")
    for value in seen.made("softmax", "log_softmax"):
        dim = plain(option(value, 0, "dim"))
        inner = operand(value)
        if width(inner) == 1 and (dim == -1 or (dim == 1 and rank(inner) == 2)):
            always = "1" if operation(value) == "softmax" else "0"
            yield _report(context, value, operation(value) or "", f"the result is always {always}")


def _report(context: Context, place: object, name: str, why: str) -> Finding:
    return context.finding(
        RULE,
        place,  # type: ignore[arg-type]
        f"{name} over a single class: {why} and every gradient is zero",
        evidence=[Evidence("classes", 1), Evidence("where", source_text(context, place))],  # type: ignore[arg-type]
        fix=Fix(
            title="use a loss for one output",
            instruction="use BCEWithLogitsLoss with one output, or as many outputs as classes",
            expected="the loss depends on the output",
        ),
    )
