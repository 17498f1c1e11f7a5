"""The seed is set after the model was built.

## What it does
Looks for the first seed of a script coming after the first network with random weights.

## Why
The initial weights are drawn when the model is built.
A seed that comes later fixes the shuffling, but every run starts from other weights.

## Fix
Set the seed before the model is built.

## When to ignore
When the weights are loaded from a file afterwards.

## References
- PyTorch, "Reproducibility"
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.parameters import parts_of
from preflight.check.queries.randomness import SEEDS
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import Obj
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="seed-after-model",
    code="REP004",
    severity="warning",
    confidence="likely",
    needs=("training_loop", "model"),
    tags=("reproducibility",),
)
_RANDOM = (
    "torch.nn.Linear",
    "torch.nn.Conv",
    "torch.nn.LSTM",
    "torch.nn.GRU",
    "torch.nn.Embedding",
    "torch.nn.Transformer",
)

_TRAIN = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
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
torch.manual_seed(0){_TRAIN}""",
    f"""
import argparse, torch
from torch import nn
parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(10, 2)
    def forward(self, x):
        return self.layer(x)
model = Net()
def fix(seed):
    torch.manual_seed(seed)
fix(args.seed){_TRAIN}""",
    f"""
import torch
import torchvision
from torch import nn
from torch.random import manual_seed as seed
def build():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.LazyLinear(10))
model = build()
seed(3){_TRAIN}""",
)

GOOD = (
    f"""
import torch
from torch import nn
from mylibrary import prepare
prepare(seed=1)
model = nn.Linear(10, 2)
torch.manual_seed(0){_TRAIN}""",
    f"""
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(10, 2)
torch.manual_seed(1){_TRAIN}""",
    f"""
import torch
from torch import nn
model = nn.Linear(10, 2)
model.load_state_dict(torch.load("initial.pt"))
torch.manual_seed(0){_TRAIN}""",
    f"""
import torch
from torch import nn
model = nn.Linear(10, 2){_TRAIN}
torch.manual_seed(0)
sample = torch.randn(10)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Compare the places of the first seed and the first model."""
    seeds = sorted(context.trace.calls(*SEEDS), key=lambda e: e.number)
    backward = min(b.number for loop in context.reading.loops for b in loop.backwards)
    if not seeds or seeds[0].number > backward or seeds[0].context.loops() or seeds[0].context.shadow:
        return
    for model in context.reading.models:
        made = next((e for e in context.trace.events if e.result is model), None)
        if made is None or made.number > seeds[0].number or made.context.shadow or not _random(model):
            continue
        loads = context.trace.on(model, "load_state_dict")
        if not loads and not _hidden(made, context):
            yield _finding(context, seeds[0], made)
            return


_KNOWN = frozenset(
    {"builtins", "torch", "torchvision", "torchaudio", "numpy", "timm", "datasets", "tqdm", "yaml", "wandb"}
)


def _hidden(made: Event, context: Context) -> bool:
    """Whether a function that is not seen may have set a seed before the model was made."""
    for event in context.trace.events:
        if event.number > made.number:
            return False
        first = event.name.partition(".")[0]
        if not event.inlined and first and first not in _KNOWN and first not in sys.stdlib_module_names:
            return True
    return False


def _random(model: Obj) -> bool:
    return any(inner.name.startswith(_RANDOM) for inner in parts_of(model).values())


def _finding(context: Context, seed: Event, made: Event) -> Finding:
    return context.finding(
        RULE,
        seed,
        "the seed is set after the model was built: its initial weights differ in every run",
        evidence=[Evidence("line of the model", made.node.lineno), Evidence("line of the seed", seed.node.lineno)],  # type: ignore[attr-defined]
        fix=Fix(
            title="set the seed before the model is built",
            instruction="move the call in front of the model",
            expected="two runs start from the same weights",
        ),
        related=[(made, "the model is built here")],
    )
