"""A random split is not reproducible.

## What it does
Looks for `random_split` without `generator`, in a script that has set no seed of PyTorch before.

## Why
Each start draws another split.
A run that is resumed then trains on samples that were held out before, and its validation metric is measured partly on what it was trained on.

## Fix
Pass `generator=torch.Generator().manual_seed(0)`.

## When to ignore
When the split is saved with the checkpoint.

## References
- PyTorch documentation, `torch.utils.data.random_split`
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.randomness import SEEDS
from preflight.check.rule import Rule
from preflight.source.script import Script
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="random-split-without-generator",
    code="DAT006",
    severity="info",
    confidence="likely",
    needs=("complete",),
    layer="S",
    tags=("data", "reproducibility"),
)

BAD = (
    """
import torch
from torch.utils.data import random_split
a, b = random_split(data, [0.8, 0.2])
""",
    """
import torch.utils.data as tud
def halves(dataset):
    n = len(dataset)
    return tud.random_split(dataset, [n // 2, n - n // 2], generator=None)
first, second = halves(samples)
""",
    """
import argparse, torch
from torch.utils.data.dataset import random_split as split
parser = argparse.ArgumentParser()
parser.add_argument("--held-out", type=float, default=0.1)
args = parser.parse_args()
class Data:
    def setup(self):
        self.train, self.val = split(self.all, [1 - args.held_out, args.held_out])
Data().setup()
torch.manual_seed(0)
""",
)
GOOD = (
    """
import torch
from torch.utils.data import random_split
a, b = random_split(data, [0.8, 0.2], torch.Generator().manual_seed(1))
""",
    """
import random, numpy, torch
from torch.utils.data import random_split
def seed_everything(seed):
    random.seed(seed)
    torch.manual_seed(seed)
seed_everything(7)
a, b = random_split(data, [0.8, 0.2])
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find random splits that no seed fixes."""
    seeds = [e.number for e in context.trace.calls(*SEEDS, "torch.set_rng_state")]
    unknown = [e.number for e in context.trace.events if not e.inlined and e.name.rpartition(".")[2] in _SEED_NAMES]
    first = min((*seeds, *unknown), default=None)
    for event in context.trace.calls("torch.utils.data.random_split"):
        generator = event.argument(2, "generator")
        if generator is not None and (getattr(generator, "value", 0) is not None):
            continue
        if first is not None and first < event.number:
            continue
        edit = context.add_argument(event, "generator=torch.Generator().manual_seed(0)") if generator is None else None
        if edit is not None and not _imports_torch(event.script):
            edit = None
        yield context.finding(
            RULE,
            event,
            "each start of the script draws another split: a resumed run trains on samples that were held out before",
            evidence=[Evidence("generator", None), Evidence("seeds set before the split", 0)],
            fix=Fix(
                title="fix the split with a generator",
                edits=edits(edit) if edit is not None else (),
                instruction="pass generator=torch.Generator().manual_seed(0)",
                expected="the same samples are held out in each run",
            ),
        )


_SEED_NAMES = frozenset(
    ("set_seed", "seed_everything", "manual_seed", "seed_all", "setup_seed", "fix_seed", "set_random_seed")
)


def _imports_torch(script: Script) -> bool:
    return any(
        isinstance(node, ast.Import) and any(a.name == "torch" and a.asname is None for a in node.names)
        for node in script.tree.body
    )
