"""No seed is set.

## What it does
Looks for training scripts that set no seed at all.

## Why
Weights, shuffling and dropout differ in every run.
A gain of half a percent cannot be told from luck: seeds alone move ImageNet accuracy by about 0.1 to 0.5 points.

## Fix
Call `torch.manual_seed(seed)` at the start, before the model is built.

## When to ignore
When runs need not be repeated.

## References
- PyTorch, "Reproducibility"; Picard, "torch.manual_seed(3407) is all you need", 2021
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.randomness import SEEDS
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="no-seed",
    code="REP001",
    severity="info",
    confidence="likely",
    needs=("training_loop", "complete"),
    layer="S",
    persona="pedantic",
    tags=("reproducibility",),
)

_TRAIN = """
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
"""

BAD = (
    f"""
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):{_TRAIN}""",
    f"""
from torch import nn
from torch.optim import Adam as Opt
def train(model, optimizer, loader):{_TRAIN}
net = nn.Linear(10, 2)
train(net, Opt(net.parameters()), loader)
""",
    f"""
import argparse, torch, torch.nn as nn
parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if __name__ == "__main__":{_TRAIN}""",
)

GOOD = (
    f"""
import torch
from torch import nn
torch.manual_seed(1)
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):{_TRAIN}""",
    f"""
import torch
from torch import nn
from accelerate.utils import set_seed
def fix():
    set_seed(3)
fix()
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):{_TRAIN}""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find scripts without a seed."""
    if context.trace.calls(*SEEDS) or context.trace.calls_under(
        "numpy.random.seed", "random.seed", "torch.cuda.manual_seed"
    ):
        return
    loop = context.reading.loops[0]
    models = context.reading.models
    place = context.reading.event_of(models[0]) if models else None
    edit = None
    if (
        place is not None
        and any(line.strip() == "import torch" for line in place.script.lines)
        and not place.context.loops()
    ):
        edit = context.insert_before(place, "torch.manual_seed(0)")
    yield context.finding(
        RULE,
        place or loop.backwards[0],
        "no seed is set: weights, shuffling and dropout differ in every run, and small gains cannot be told from luck",
        evidence=[Evidence("calls that set a seed", 0)],
        fix=Fix(
            title="set a seed before the model is built",
            edits=edits(edit) if edit is not None else (),
            instruction="call torch.manual_seed(seed) at the start",
            expected="two runs begin alike",
        ),
    )
