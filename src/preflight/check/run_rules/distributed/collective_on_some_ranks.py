"""Sees ranks that were run one after the other call different collectives."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rule import Example
from preflight.check.rules.distributed.collective_on_some_ranks import RULE
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.profile import Call

_HEAD = """
import torch, torch.distributed as dist
from torch import nn
dist.init_process_group("nccl")
rank = dist.get_rank()
model = nn.parallel.DistributedDataParallel(nn.Linear(8, 2).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total = torch.zeros(1, device="cuda")
"""
_LOOP = """
for step in range(4):
    optimizer.zero_grad()
    model(torch.randn(4, 8, device="cuda")).sum().backward()
    optimizer.step()
    after(step)
"""


def _example(text: str) -> Example:
    return Example(_HEAD + text + _LOOP, gpus=2)


BAD = (
    _example("def after(step):\n    if rank == 0:\n        dist.all_reduce(total)\n"),
    _example(
        "class Log:\n    def __init__(self, main):\n        self.main = main\n    def write(self):\n        if self.main:\n"
        "            dist.barrier()\nlog = Log(rank == 0)\ndef after(step):\n    log.write()\n"
    ),
    _example("def after(step):\n    if rank > 0 and step == 1:\n        return\n    dist.broadcast(total, 0)\n"),
)

GOOD = (
    _example("def after(step):\n    dist.all_reduce(total)\n    if rank == 0:\n        print(step)\n"),
    _example(
        "def after(step):\n    if rank == 0:\n        dist.broadcast(total, 0)\n    else:\n        dist.broadcast(total, 0)\n"
    ),
)


def observe(run: Run) -> Iterator[Finding]:
    """Find the first collective in which two ranks differ."""
    for found in run.profile.divergences:
        one, other = found.calls
        here = one or other
        if here is None:
            continue
        first, second = found.ranks
        related = (
            [(other.line, f"rank {second} is here: {_told(other)}")] if one is not None and other is not None else []
        )
        yield run.finding(
            RULE,
            here.line,
            f"rank {first} {_does(one)} where rank {second} {_does(other)}: each waits for the other until the timeout",
            evidence=[
                seen("collectives that both called before", found.position),
                seen(f"rank {first} calls", _told(one)),
                seen(f"rank {second} calls", _told(other)),
            ],
            related=related,
            fix=Fix(
                title="let every rank of the group make the call",
                instruction="move the collective out of the branch, or use a group of the ranks that take part",
                expected="all ranks call the same collectives in the same order",
            ),
            confidence="certain",
        )
        return


def _does(call: Call | None) -> str:
    return "calls no collective any more" if call is None else f"calls {_name(call)}"


def _told(call: Call | None) -> str:
    return (
        "nothing more" if call is None else f"{_name(call)} of {call.bytes:,} bytes at {call.line} in step {call.step}"
    )


def _name(call: Call) -> str:
    return call.operator.strip("_")
