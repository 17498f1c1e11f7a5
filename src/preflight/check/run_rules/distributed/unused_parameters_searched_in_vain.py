"""`find_unused_parameters=True`, and every parameter is used.

## What it does
Finds `DistributedDataParallel` models that look for unused parameters in each step, in a run in which there were none.

## Why
DDP walks the whole graph after each forward to find what will get no gradient, before the backward pass may begin.
It also reduces a map of the unused parameters in each step.

## Fix
Leave `find_unused_parameters` out.

## When to ignore
When later batches or other options leave parts of the model out.

## References
- PyTorch documentation, `torch.nn.parallel.DistributedDataParallel`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rule import Example, Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="unused-parameters-searched-in-vain", code="DST009", severity="info", layer="V", tags=("ddp", "dry-run")
)  # fmt: skip

_LOOP = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(4):
    optimizer.zero_grad()
    model(torch.randn(4, 8, device="cuda")).sum().backward()
    optimizer.step()
"""
_HEAD = """
import torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("nccl")
"""


def _example(text: str) -> Example:
    return Example(_HEAD + text + _LOOP, gpus=2)


BAD = (
    _example("model = DDP(nn.Linear(8, 2).cuda(), find_unused_parameters=True)\n"),
    _example(
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--find', type=int, default=1)\n"
        "args = parser.parse_args()\nmodel = DDP(nn.Linear(8, 2).cuda(), [0], find_unused_parameters=bool(args.find))\n"
    ),
    _example(
        "options = dict(find_unused_parameters=True)\n"
        "model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2)).cuda(), **options)\n"
    ),
)

GOOD = (
    _example("model = DDP(nn.Linear(8, 2).cuda())\n"),
    _example(
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.a, self.b, self.turn = nn.Linear(8, 2), nn.Linear(8, 2), 0\n"
        "    def forward(self, x):\n        self.turn += 1\n        return (self.a if self.turn % 2 else self.b)(x)\n"
        "model = DDP(Net().cuda(), find_unused_parameters=True)\n"
    ),
)


def observe(run: Run) -> Iterator[Finding]:
    """Find models that were told to look, and never found one."""
    rounds = run.seen("round of replicas")
    if not run.complete or not rounds or not all(item.data["lenient"] for item in rounds):
        return
    if any(item.data["unused"] for item in rounds):
        return
    made = run.seen("replicas made")
    if not made or not any(item.data["find_unused"] for item in made):
        return
    first = rounds[0]
    yield run.finding(
        RULE,
        made[0].line,
        f"find_unused_parameters is on, and all {first.data['of']} parameters got a gradient in every step: the graph is walked "
        "for nothing before each backward pass",
        evidence=[
            seen("rounds with an unused parameter", 0),
            seen("rounds", sum(item.count for item in rounds)),
        ],
        fix=Fix(
            title="leave find_unused_parameters out",
            instruction="DistributedDataParallel(model, device_ids=[local_rank])",
            expected="the backward pass begins without a walk over the graph",
        ),
    )
