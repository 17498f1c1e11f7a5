"""The ranks split the data by a seed that depends on the rank.

## What it does
Looks for a seed that is computed from the rank, followed by a random split of the data without its own generator.

## Why
Each rank draws another split: what one rank validates on, another one trains on.
Validation scores are then too good, and nothing says so.

## Fix
Give the split its own generator with one seed for all ranks: `generator=torch.Generator().manual_seed(0)`.

## When to ignore
When each rank is meant to have its own data.

## References
- PyTorch, `torch.utils.data.random_split`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.randomness import SPLITS
from preflight.check.rule import Rule
from preflight.source.ranks import rank_kind
from preflight.source.trace import Event
from preflight.source.values import Known, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="ranks-split-data-differently",
    code="REP003",
    severity="error",
    confidence="likely",
    needs=("distributed",),
    tags=("reproducibility", "distributed"),
)

BAD = (
    """
import torch
import torch.distributed as dist
from torch.utils.data import random_split
dist.init_process_group("nccl")
torch.manual_seed(42 + dist.get_rank())
train, validation = random_split(dataset, [50000, 10000])
""",
    """
import os
import torch as t
from torch.utils.data import random_split as split
t.distributed.init_process_group("nccl")
rank = int(os.environ["RANK"])
def seed(number):
    t.manual_seed(number)
seed(1000 * rank)
def data():
    return split(dataset, [0.9, 0.1])
data()
""",
    """
import argparse, torch
from torch import distributed
parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=7)
args = parser.parse_args()
class Data:
    def __init__(self, seed):
        torch.manual_seed(seed)
        order = torch.randperm(1000)
        self.train, self.test = order[:900], order[900:]
distributed.init_process_group("nccl")
Data(args.seed + distributed.get_rank())
""",
)

GOOD = (
    """
import torch
import torch.distributed as dist
from torch.utils.data import random_split
dist.init_process_group("nccl")
torch.manual_seed(42 + dist.get_rank())
train, validation = random_split(dataset, [50000, 10000], generator=torch.Generator().manual_seed(0))
""",
    """
import torch
import torch.distributed as dist
from torch.utils.data import random_split
dist.init_process_group("nccl")
torch.manual_seed(42)
train, validation = random_split(dataset, [50000, 10000])
torch.manual_seed(42 + dist.get_rank())
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find splits after a seed that differs between the ranks."""
    seeds = context.trace.calls("torch.manual_seed", "torch.random.manual_seed")
    for split in context.trace.calls("torch.utils.data.random_split", "torch.randperm"):
        if split.argument(*SPLITS[split.name]) is not None or split.context.loops():
            continue
        before = [s for s in seeds if s.number < split.number and not s.context.shadow]
        if before and before[-1].args and rank_kind(before[-1].args[0]) == "global":
            yield _finding(context, split, before[-1])


def _finding(context: Context, split: Event, seed: Event) -> Finding:
    given = settle(seed.args[0])
    known = given.value if isinstance(given, Known) else None
    return context.finding(
        RULE,
        split,
        "the data are split by chance after a seed that differs between the ranks: "
        "what one rank validates on, another one trains on",
        evidence=[Evidence("seed", known if isinstance(known, int) else seed.script.segment(seed.node))],
        fix=Fix(
            title="give the split its own generator with one seed",
            edits=edits(context.add_argument(split, "generator=torch.Generator().manual_seed(0)"))
            if split.name.endswith("random_split") and any(x.strip() == "import torch" for x in split.script.lines)
            else (),
            instruction="pass generator=torch.Generator().manual_seed(0)",
            expected="all ranks have the same split",
        ),
        related=[(seed, "the seed is set here")],
    )
