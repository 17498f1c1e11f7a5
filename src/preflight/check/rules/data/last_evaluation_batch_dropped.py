"""Evaluation drops its last batch.

## What it does
Looks for `drop_last=True` on a `DataLoader` whose batches are only evaluated on.

## Why
Up to batch size - 1 samples are never evaluated, always the same ones.
The metric then is not the metric of the dataset, and it changes with the batch size.

## Fix
Leave `drop_last` off for evaluation.

## When to ignore
When all ranks must evaluate the same number of batches and the samples that are lost do not matter.

## References
- PyTorch documentation, `torch.utils.data.DataLoader`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.loaders import evaluation_loaders, set_argument, setting
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="last-evaluation-batch-dropped",
    code="DAT007",
    severity="info",
    confidence="likely",
    needs=("loader", "training_loop"),
    layer="S",
    tags=("data", "evaluation"),
)

_TRAIN = """
import torch
from torch import nn
from torch.utils import data
from torch.utils.data import DataLoader
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(a, batch_size=8, shuffle=True, drop_last=True):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""
BAD = (
    _TRAIN
    + """
with torch.no_grad():
    for x, y in DataLoader(b, batch_size=8, drop_last=True):
        model(x)
""",
    _TRAIN
    + """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=100)
args = parser.parse_args()
def loader(d):
    return data.DataLoader(d, args.batch, False, None, None, 2, None, True, True)
@torch.no_grad()
def test(batches):
    for x, y in batches:
        model(x)
test(loader(held_out))
""",
    _TRAIN
    + """
options = {"batch_size": 4, "drop_last": True}
class Eval:
    def __init__(self):
        self.batches = DataLoader(b, **options)
    def run(self):
        with torch.inference_mode():
            return [model(x) for x in self.batches]
Eval().run()
""",
)
GOOD = (
    _TRAIN
    + """
with torch.no_grad():
    for x, y in DataLoader(b, batch_size=8):
        model(x)
""",
    _TRAIN
    + """
more = DataLoader(b, batch_size=8, shuffle=True, drop_last=True)
for x, y in more:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
with torch.no_grad():
    for x, y in more:
        model(x)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find evaluation loaders that drop their last batch."""
    for loader in evaluation_loaders(context):
        if setting(loader, "drop_last") is not True:
            continue
        batch = setting(loader, "batch_size")
        lost = f"up to {batch - 1}" if isinstance(batch, int) else "some"
        edit = set_argument(context, loader, "drop_last", "False")
        yield context.finding(
            RULE,
            loader,
            f"{lost} samples at the end of the evaluation data are never evaluated (drop_last is True): the metric changes with the batch size",
            evidence=[
                Evidence("drop_last", True),
                Evidence(
                    "samples lost at most",
                    batch - 1 if isinstance(batch, int) else None,
                    None,
                    "derived",
                    f"batch_size {batch} - 1",
                ),
            ]
            if isinstance(batch, int)
            else [Evidence("drop_last", True)],
            fix=Fix(
                title="evaluate the last batch too",
                edits=edits(edit) if edit is not None else (),
                instruction="leave drop_last off for data that is only evaluated on",
                expected="the metric covers all samples",
            ),
        )
