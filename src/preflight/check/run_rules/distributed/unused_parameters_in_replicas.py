"""Parameters of a DistributedDataParallel model get no gradient in some step.

## What it does
Recognises the exception with which `DistributedDataParallel` ends when parameters took no part in the loss of the step before, and names them.

## Why
DDP reduces gradients in buckets as they become ready, and waits for every parameter.
One that the loss does not use is never ready: the next forward raises, or, in older releases, the run hangs in the reduction.

## Fix
Use the parameters in the loss, freeze or delete them, or pass `find_unused_parameters=True`, which costs a walk over the graph in each step.

## When to ignore
Never: the run ends here.

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
    name="unused-parameters-in-replicas", code="DST003", severity="error", confidence="certain", layer="V",
    tags=("ddp", "dry-run"),
)  # fmt: skip

_NET = """
import torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("nccl")
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.spare = nn.Linear(8, 8), nn.Linear(8, 8)
    def forward(self, x, both=False):
        return self.body(x) + (self.spare(x) if both else 0)
"""
_LOOP = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(4):
    optimizer.zero_grad()
    step(i).sum().backward()
    optimizer.step()
"""


def _example(text: str) -> Example:
    return Example(_NET + text + _LOOP, gpus=2)


BAD = (
    _example("model = DDP(Net().cuda())\ndef step(i):\n    return model(torch.randn(4, 8, device='cuda'))\n"),
    _example(
        "model = DDP(Net().cuda(), device_ids=[0])\ndef step(i):\n    return model(torch.randn(4, 8).cuda(), both=i % 2 == 1)\n"
    ),
    _example(
        "def wrap(net):\n    return DDP(net.to('cuda'), gradient_as_bucket_view=True)\nmodel = wrap(Net())\n"
        "def step(i):\n    return model(torch.randn(4, 8, device='cuda'))\n"
    ),
)

GOOD = (
    _example("model = DDP(Net().cuda())\ndef step(i):\n    return model(torch.randn(4, 8, device='cuda'), True)\n"),
    _example(
        "model = DDP(Net().cuda(), find_unused_parameters=True)\n"
        "def step(i):\n    return model(torch.randn(4, 8, device='cuda'))\n"
    ),
)


def observe(run: Run) -> Iterator[Finding]:
    """Find the exception of a reduction that could not be finished."""
    if not run.raised("Expected to have finished reduction"):
        return
    unused = [p for p in run.profile.parameters if p.trainable and p.network is not None and not p.gradients]
    message = run.profile.message or ""
    names = message[message.find("(") + 1 : message.find(")")] if "(" in message else ""
    yield run.finding(
        RULE,
        run.raised_at,
        "DistributedDataParallel ends the run here, in its next forward: parameters took no part in the loss of the step "
        f"before{': ' + names if names else ''}",
        evidence=[
            seen("parameters that never got a gradient", len(unused)),
            seen("exception", message.splitlines()[0][:200] if message else None),
        ],
        fix=Fix(
            title="use these parameters in the loss, or freeze or delete them",
            instruction="where some steps leave them out on purpose: DistributedDataParallel(..., find_unused_parameters=True)",
            expected="the reduction is finished in every step",
        ),
    )
