"""Evaluation data is shuffled.

## What it does
Looks for a `DataLoader` with `shuffle=True` whose batches are only evaluated on.

## Why
The average over all samples does not depend on their order, but everything else does: which samples a saved picture shows, which prediction belongs to which row, and the metric of each batch.
Shuffling also draws from the global random stream, so adding an evaluation changes the order of the training data after it.

## Fix
Pass `shuffle=False` to loaders of validation and test data.

## When to ignore
When an evaluation deliberately looks at a random part of the data.

## References
- PyTorch documentation, `torch.utils.data.DataLoader`, "Data Loading Order and Sampler"
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.loaders import evaluation_loaders, feeding, set_argument, setting, source_loaders
from preflight.check.rule import Rule
from preflight.source.values import Obj
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="evaluation-data-shuffled",
    code="DAT002",
    severity="info",
    confidence="likely",
    needs=("loader", "training_loop"),
    layer="D",
    tags=("data",),
)

_TRAIN = """
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train(loader):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
"""
BAD = (
    _TRAIN
    + """
def test(loader):
    with torch.no_grad():
        for x, y in loader:
            model(x)
train(DataLoader(a, batch_size=8, shuffle=True))
test(DataLoader(b, batch_size=8, shuffle=True))
""",
    _TRAIN
    + """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--no-shuffle", dest="shuffle", action="store_false", default=True)
args = parser.parse_args()
loaders = [DataLoader(d, 8, args.shuffle) for d in (first, second)]
@torch.no_grad()
def evaluate(net, batches):
    return sum(net(x).sum().item() for x, y in batches), [net(x) for x, _ in batches]
train(loaders[0])
for x, y in loaders[1]:
    model(x)
""",
    _TRAIN
    + """
import torch.utils.data as tud
class Runner:
    def __init__(self):
        self.valid = tud.DataLoader(held_out, shuffle=True, batch_size=4)
    @torch.inference_mode()
    def validate(self):
        total = 0
        for batch in self.valid:
            total += model(batch).sum().item()
        return total
train(DataLoader(a, batch_size=8, shuffle=True))
Runner().validate()
""",
)
GOOD = (
    _TRAIN
    + """
train(DataLoader(a, batch_size=8, shuffle=True))
for x, y in DataLoader(b, batch_size=8):
    model(x)
""",
    _TRAIN
    + """
loader = DataLoader(a, batch_size=8, shuffle=True)
train(loader)
with torch.no_grad():
    for x, y in loader:
        model(x)
probe = DataLoader(b, batch_size=8, shuffle=True)
for i, (x, y) in enumerate(probe):
    if i == 10:
        break
    model(x)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find loaders that are only evaluated on and shuffle."""
    for loader in evaluation_loaders(context):
        if setting(loader, "shuffle") is not True or _samples(context, loader):
            continue
        edit = set_argument(context, loader, "shuffle", "False")
        yield context.finding(
            RULE,
            loader,
            "data that is only evaluated on is shuffled: what is shown or saved for each sample changes from run to run",
            evidence=[Evidence("shuffle", True)],
            fix=Fix(
                title="keep the order of evaluation data",
                edits=edits(edit) if edit is not None else (),
                instruction="pass shuffle=False to the loader",
                expected="the samples come in stored order, and evaluation draws nothing from the random stream",
            ),
        )


def _samples(context: Context, loader: Obj) -> bool:
    """Whether only some batches are looked at: then a random choice may be wanted."""
    for event in context.trace.calls("builtins.next", "itertools.islice", ".take"):
        if any(loader in source_loaders(context, v) for v in (*event.args, event.receiver)):
            return True
    for frame in feeding(context).evaluation.get(id(loader), []):
        body = getattr(frame.node, "body", [])
        if any(isinstance(n, (ast.Break, ast.Return)) for statement in body for n in ast.walk(statement)):
            return True
    return False
