"""Training and held-out parts come from two random splits.

## What it does
Looks for `random_split` that is called once for the part that is trained on and once for the part that is evaluated, over the same files, without one seed in both.

## Why
Each call draws an order of its own.
The second split knows nothing of the first: with a tenth held out, nine tenths of the held-out samples are in the training part too, and the metric is measured on what was trained on.

## Fix
Give both calls `generator=torch.Generator().manual_seed(...)` with one seed, or draw the indices once and take them with `Subset`.

## When to ignore
When a seed is set right before each of the calls by means that cannot be seen.

## References
- PyTorch documentation, `torch.utils.data.random_split`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.held_out import alike
from preflight.check.queries.loaders import dataset_of, evaluation_loaders, training_loaders
from preflight.check.queries.randomness import SEEDS
from preflight.check.rule import Rule
from preflight.source.values import Known, Obj, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="parts-drawn-twice",
    code="DAT019",
    severity="warning",
    confidence="likely",
    needs=("loader", "training_loop"),
    layer="D",
    tags=("data", "evaluation"),
)

_HEAD = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split
from torchvision import datasets, transforms as T
augment = T.Compose([T.RandomResizedCrop(64), T.ToTensor()])
plain = T.Compose([T.Resize((64, 64)), T.ToTensor()])
"""
_LOOPS = """
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(first, batch_size=8, shuffle=True):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
with torch.no_grad():
    for x, y in DataLoader(second, batch_size=8):
        print((model(x).argmax(1) == y).sum())
"""
BAD = (
    _HEAD
    + """
first, _ = random_split(datasets.ImageFolder("x", augment), [0.9, 0.1])
_, second = random_split(datasets.ImageFolder("x", plain), [0.9, 0.1])
"""
    + _LOOPS,
    _HEAD
    + """
def part(data, index):
    return random_split(data, [800, 200])[index]
whole = TensorDataset(*torch.load("rows.pt"))
first, second = part(whole, 0), part(whole, 1)
"""
    + _LOOPS,
    _HEAD
    + """
import argparse
import torch.utils.data as tud
parser = argparse.ArgumentParser()
parser.add_argument("--data", default="x")
args = parser.parse_args()
generator = torch.Generator().manual_seed(0)
first = tud.random_split(datasets.ImageFolder(args.data, augment), [0.9, 0.1], generator=generator)[0]
second = tud.random_split(datasets.ImageFolder(args.data, plain), [0.9, 0.1], generator=generator)[1]
"""
    + _LOOPS,
)
GOOD = (
    _HEAD
    + """
first, _ = random_split(datasets.ImageFolder("x", augment), [0.9, 0.1], torch.Generator().manual_seed(0))
_, second = random_split(datasets.ImageFolder("x", plain), [0.9, 0.1], torch.Generator().manual_seed(0))
"""
    + _LOOPS,
    _HEAD
    + """
whole, second = random_split(datasets.ImageFolder("x", plain), [0.9, 0.1])
first, third = random_split(whole, [0.9, 0.1])
"""
    + _LOOPS,
    _HEAD
    + """
torch.manual_seed(0)
first, _ = random_split(datasets.ImageFolder("x", augment), [0.9, 0.1])
torch.manual_seed(0)
_, second = random_split(datasets.ImageFolder("x", plain), [0.9, 0.1])
"""
    + _LOOPS,
)
_SPLIT = "torch.utils.data.random_split"


def check(context: Context) -> Iterator[Finding]:
    """Find two splits of the same files that draw on their own."""
    trained = [
        (loader, split) for loader in training_loaders(context) if (split := _split(dataset_of(loader))) is not None
    ]
    for loader in evaluation_loaders(context):
        held = _split(dataset_of(loader))
        if held is None:
            continue
        for other, split in trained:
            if split is held or not _same_files(split, held) or _same_seed(context, split, held):
                continue
            yield context.finding(
                RULE,
                held,
                "the part that is evaluated comes from another random split than the part that is trained on: most of its samples are "
                "trained on as well",
                evidence=[Evidence("calls of random_split", 2), Evidence("one seed in both", False)],
                related=[(split, "the split of the training"), (other, "the loader that is trained on")],
                fix=Fix(
                    title="draw the split once",
                    instruction="pass generator=torch.Generator().manual_seed(0) to both calls, a new one each, or take the indices of "
                    "one split from both data sets with Subset",
                    expected="no sample is in both parts",
                ),
            )
            break


def _split(dataset: Value | None) -> Obj | None:
    """The call of ``random_split`` that a part comes from."""
    base = settle(dataset) if dataset is not None else None
    if not isinstance(base, Obj) or base.kind != "item" or base.receiver is None:
        return None
    made = settle(base.receiver)
    return made if isinstance(made, Obj) and made.name == _SPLIT else None


def _same_files(one: Obj, other: Obj) -> bool:
    first, second = one.argument(0, "dataset"), other.argument(0, "dataset")
    if first is None or second is None:
        return False
    a, b = settle(first), settle(second)
    return isinstance(a, Obj) and isinstance(b, Obj) and (a is b or alike(a, b))


def _same_seed(context: Context, one: Obj, other: Obj) -> bool:
    """Whether both draw from generators that may have been seeded alike."""
    given = [split.argument(2, "generator") for split in (one, other)]
    if given[0] is None and given[1] is None:
        first, second = sorted((one.number, other.number))
        seeds = context.trace.calls(*SEEDS, *_STATES)
        # A seed that is set again between the two calls may be the same as before the first.
        return any(first < seed.number < second for seed in seeds)
    if given[0] is None or given[1] is None:
        return False
    a, b = settle(given[0]), settle(given[1])
    return a is not b or isinstance(a, Known)


_STATES = ("torch.set_rng_state", "torch.random.set_rng_state", "torch.random.fork_rng")
