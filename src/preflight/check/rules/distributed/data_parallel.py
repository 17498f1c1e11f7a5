"""nn.DataParallel instead of DistributedDataParallel.

## What it does
Looks for `torch.nn.DataParallel`.

## Why
DataParallel drives all GPUs from one Python process: it copies the model to every GPU and gathers the outputs on the first one in every step.
PyTorch's own documentation recommends DistributedDataParallel even on one machine.

## Fix
Start one process per GPU with torchrun and wrap the model in DistributedDataParallel.

## When to ignore
For quick inference on two GPUs, or where only one process may be started.

## References
- PyTorch documentation, torch.nn.DataParallel (the warning at its top)
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="data-parallel", code="DST010", severity="info", confidence="certain", layer="S", tags=("distributed", "speed")
)

BAD = (
    """
import torch
from torch import nn
model = nn.DataParallel(nn.Linear(4, 2)).cuda()
""",
    """
import argparse, torch
def parallel(model, ids):
    return torch.nn.DataParallel(model, device_ids=ids)
p = argparse.ArgumentParser()
p.add_argument("--gpus", type=int, nargs="+", default=[0, 1])
model = parallel(torch.nn.Linear(4, 2), p.parse_args().gpus)
""",
    """
from torch.nn import Linear
from torch.nn.parallel import DataParallel as DP
class Trainer:
    def __init__(self):
        self.model = DP(Linear(4, 2))
Trainer()
""",
)

GOOD = (
    """
import torch
from torch import nn
torch.distributed.init_process_group("nccl")
model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2).cuda(), device_ids=[0])
inner = model.module if isinstance(model, nn.DataParallel) else model
""",
    """
import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--parallel", action="store_true")
args = p.parse_args()
model = torch.nn.Linear(4, 2)
if args.parallel:
    model = torch.nn.DataParallel(model)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find DataParallel on the path that the defaults take."""
    for event in context.trace.calls("torch.nn.parallel.DataParallel"):
        if event.context.shadow:
            continue
        yield context.finding(
            RULE,
            event,
            "DataParallel copies the model to every GPU and gathers outputs on the first one in each step; DistributedDataParallel does not",
            evidence=[Evidence("processes", 1, arithmetic="one Python process drives all GPUs")],
            fix=Fix(
                title="use DistributedDataParallel",
                instruction="start one process per GPU (torchrun --nproc_per_node N) and wrap the model in DistributedDataParallel",
                expected="no copy of the weights and no gather per step",
            ),
        )
