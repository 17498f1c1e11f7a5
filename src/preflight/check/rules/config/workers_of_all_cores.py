"""Every rank starts as many workers as the machine has cores.

## What it does
Looks for `num_workers=os.cpu_count()` (or the like) in a distributed script, without a division by the number of ranks.

## Why
With 8 ranks on a machine of 96 cores, 768 worker processes compete for 96 cores: they slow each other down, take memory each, and reach the limit of open files.

## Fix
Divide by the ranks of the machine: `os.cpu_count() // local_world_size`, and rarely more than 16.

## When to ignore
When only one process runs on each machine.

## References
- PyTorch documentation, torch.utils.data.DataLoader, "Multi-process data loading"
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.trace import provenance
from preflight.source.values import Choice, Known, Obj, Unknown, Value, options_of
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="workers-of-all-cores",
    code="CFG018",
    severity="warning",
    confidence="likely",
    needs=("loader",),
    layer="C",
    tags=("data", "distributed"),
)

BAD = (
    """
import os, torch
from torch.utils.data import DataLoader
torch.distributed.init_process_group("nccl")
loader = DataLoader(dataset, num_workers=os.cpu_count())
""",
    """
import multiprocessing as mp
import torch.utils.data as data
from torch.distributed import init_process_group
def build(dataset):
    workers = mp.cpu_count() - 1
    return data.DataLoader(dataset, 8, num_workers=workers)
init_process_group("nccl")
build(dataset)
""",
    """
import argparse, os
import torch
from torch.utils.data import DataLoader as DL
p = argparse.ArgumentParser()
p.add_argument("--workers", type=int, default=os.cpu_count())
args = p.parse_args()
torch.distributed.init_process_group("nccl")
loader = DL(dataset, num_workers=args.workers)
""",
)

GOOD = (
    """
import os, torch
from torch.utils.data import DataLoader
torch.distributed.init_process_group("nccl")
loader = DataLoader(dataset, num_workers=os.cpu_count() // torch.cuda.device_count())
other = DataLoader(dataset, num_workers=min(8, os.cpu_count()))
""",
    """
import os
from torch.utils.data import DataLoader
loader = DataLoader(dataset, num_workers=os.cpu_count())
""",
    """
import multiprocessing, sys, torch
from torch.utils.data import DataLoader
CORES = multiprocessing.cpu_count()
def default(value, other):
    return value if value is not None else other
class Trainer:
    def __init__(self, distributed, workers=None):
        self.distributed, self.workers = distributed, workers
    def loader(self, dataset):
        count = default(self.workers, CORES if not self.distributed else 0)
        return DataLoader(dataset, num_workers=count)
distributed = len(sys.argv) > 2
if distributed:
    torch.distributed.init_process_group("nccl")
Trainer(distributed).loader(dataset)
""",
    """
import multiprocessing, torch
from torch.utils.data import DataLoader
def train(rank, world, ranks):
    if ranks:
        torch.distributed.init_process_group("nccl", rank=rank, world_size=world)
    return DataLoader(dataset, num_workers=4 if ranks else multiprocessing.cpu_count())
world = torch.cuda.device_count()
if world == 1:
    train(0, 1, False)
else:
    torch.multiprocessing.spawn(train, args=(world, True), nprocs=world)
""",
)

_CORES = ("os.cpu_count", "multiprocessing.cpu_count", "torch.multiprocessing.cpu_count")
_DIVIDES = ("/", "//", "builtins.min")


def check(context: Context) -> Iterator[Finding]:
    """Find worker counts that are the cores of the machine."""
    groups = [e for e in context.trace.calls("torch.distributed.init_process_group") if not e.context.shadow]
    if not groups:
        return
    for loader in context.reading.made("loader"):
        event = context.reading.event_of(loader)
        value = (
            event.argument(5, "num_workers")
            if event is not None and loader.name == "torch.utils.data.DataLoader"
            else None
        )
        if event is None or value is None or event.context.shadow or not _all_cores(context, value):
            continue
        if event.number < groups[0].number:
            continue  # made by a process of its own, on another path than the ranks
        yield context.finding(
            RULE,
            event,
            "every rank starts as many workers as the machine has cores: with N ranks on it, N times too many processes",
            evidence=[Evidence("num_workers", "all cores", arithmetic="8 ranks x 96 cores = 768 workers on 96 cores")],
            fix=Fix(
                title="divide the cores between the ranks of a machine",
                instruction="use os.cpu_count() // ranks per machine, and at most 8 to 16",
                expected="one worker per core at most",
            ),
            related=[(groups[0], "several ranks run on one machine")],
        )


def _all_cores(context: Context, value: Value) -> bool:
    parts = list(provenance(value, 40))
    if any(isinstance(p, Obj) and p.name in _DIVIDES for p in parts):
        return False
    if any(isinstance(o, Known) for p in parts if isinstance(p, Choice) for o in options_of(p)):
        return False  # os.cpu_count() if world == 1 else 4
    for part in parts:
        if isinstance(part, Unknown) and part.site is not None:
            made = context.reading.event_of(part)
            if made is not None and made.name in _CORES:
                return part is parts[0] or not any(
                    isinstance(p, Unknown) and len(p.parents) > 1 and _divided(p) for p in parts
                )
        if isinstance(part, Obj) and part.name in _CORES:
            return True
    return False


def _divided(value: Unknown) -> bool:
    node = value.site.node if value.site is not None else None
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, (ast.Div, ast.FloorDiv))
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == "min"
