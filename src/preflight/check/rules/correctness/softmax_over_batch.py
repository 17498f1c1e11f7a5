"""Soft-max over the batch dimension.

## What it does
Follows the input of a classification loss back to a soft-max or log-soft-max with `dim=0` over a tensor whose first dimension is the batch (or the nodes of a graph), and reports `argmax(dim=0)` on such outputs.

## Why
Soft-max makes the numbers along its dimension sum to one.
Over dimension 0 of a (batch, classes) tensor, examples compete with each other and the classes of one example do not: the loss falls a little and accuracy stays near chance, without an error.

## Fix
Use `dim=-1` (or `dim=1` for images).

## When to ignore
When the tensor has no batch dimension.

## References
- PyTorch documentation of softmax: dim is the dimension along which it sums to one
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.batches import loader_of
from preflight.check.queries.losses import loss_calls
from preflight.check.queries.shapes import rank
from preflight.check.queries.tensors import (
    ELEMENTWISE,
    VIEWS,
    literal_edit,
    operand,
    operation,
    option,
    origin,
    source_text,
)
from preflight.check.rule import Rule
from preflight.source.values import Obj, Value, plain, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(name="softmax-over-batch", code="LOS004", severity="error", confidence="certain", layer="D", tags=("loss",))

BAD = (
    """
import torch.nn as nn
import torch.nn.functional as F
class Net(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.fc1, self.bn, self.fc2 = nn.Linear(64, 32), nn.BatchNorm1d(32), nn.Linear(32, classes)
    def forward(self, x):
        x = F.relu(self.bn(self.fc1(x)))
        return F.log_softmax(self.fc2(x), dim=0)
net = Net()
for x, y in loader:
    F.nll_loss(net(x), y).backward()
""",
    """
import torch
from torch_geometric.nn import GCNConv
class GCN(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = GCNConv(8, 16), GCNConv(16, 3)
    def forward(self, data):
        h = self.a(data.x, data.edge_index).relu()
        return self.b(h, data.edge_index).log_softmax(0)
def main():
    net = GCN()
    for epoch in range(100):
        out = net(data)
        loss = torch.nn.functional.nll_loss(out[data.train_mask], data.y[data.train_mask])
        loss.backward()
main()
""",
    """
import argparse
from torch import nn
p = argparse.ArgumentParser()
p.add_argument("--axis", type=int, default=0)
args = p.parse_args()
model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.Flatten(), nn.Linear(5408, 10), nn.LogSoftmax(dim=args.axis))
criterion = nn.NLLLoss()
for x, y in loader:
    criterion(model(x), y).backward()
""",
    """
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader
net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))
for x, y in DataLoader(data, batch_size=64, shuffle=True):
    F.nll_loss(F.log_softmax(net(x.to("cuda")), dim=0), y.to("cuda")).backward()
""",
)

GOOD = (
    """
import torch.nn as nn
import torch.nn.functional as F
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.score, self.out = nn.Linear(8, 1), nn.Linear(8, 3)
    def forward(self, steps):
        weights = F.softmax(self.score(steps), dim=0)
        return F.log_softmax(self.out((weights * steps).sum(0)), dim=1)
net = Attention()
for x, y in loader:
    F.nll_loss(net(x), y).backward()
""",
    """
import torch, torch.nn as nn
policy = nn.Linear(4, 2)
for state, action in steps:
    logp = torch.log_softmax(policy(state), dim=0)
    loss = nn.functional.nll_loss(logp, action)
    loss.backward()
""",
    """
import torch, torch.nn as nn
from torch.utils.data import DataLoader
net = nn.Linear(32, 10)
for x, y in DataLoader(data, batch_size=None):
    nn.functional.nll_loss(torch.log_softmax(net(x), dim=0), y).backward()
""",
)

_MOVES = frozenset({"to", "cuda", "float", "double", "half", "bfloat16"})


def check(context: Context) -> Iterator[Finding]:
    """Follow the input of each loss to a soft-max over dimension 0 of a batch."""
    for call in loss_calls(context):
        found = origin(call.input, VIEWS, items=True, strict=call.event.context.shadow)
        if found is None or operation(found) not in ("softmax", "log_softmax"):
            continue
        dim = option(found, 0, "dim")
        if plain(dim) != 0 or not batched(operand(found)):
            continue
        yield context.finding(
            RULE,
            found,
            f"{operation(found)} over dim=0 normalises over the batch instead of over the classes",
            evidence=[
                Evidence("dim", 0),
                Evidence("dimensions of its input", rank(operand(found)) or "at least 2"),
                Evidence("input", source_text(context, operand(found) or found)),
            ],
            related=[(call.event, "its result is given to this loss")],
            fix=Fix(
                title="normalise over the classes",
                edits=edits(literal_edit(context, dim, "0", "-1")),
                instruction="use dim=-1, or dim=1 for images",
                expected="the probabilities of each example sum to one",
            ),
        )


def batched(value: Value | None) -> bool:
    """Whether the first dimension is known to be a batch: two or more dimensions, a layer that needs one, or a loader's item."""
    known = rank(value)
    if known is not None:
        return known >= 2
    features = False
    for _ in range(40):
        current = settle(value) if value is not None else None
        if not isinstance(current, Obj):
            return False
        name = operation(current) or ""
        if name.startswith(("nn.BatchNorm", "nn.Conv", "model:torch_geometric.nn.")):
            return True
        if features and _given_by_loader(current):
            return True
        if name not in ELEMENTWISE and name not in ("nn.Linear", "linear"):
            return False
        features = features or name.endswith(("Linear", "linear"))
        value = operand(current)
    return False


def _given_by_loader(value: Obj) -> bool:
    """Whether a value is a tensor of a loader's batch, as it came."""
    source = origin(value, _MOVES) if operation(value) in _MOVES else value
    made = loader_of(source)
    if made is None:
        return False
    size = made.argument(1, "batch_size")
    return size is None or plain(size) is not None  # batch_size=None gives single samples
