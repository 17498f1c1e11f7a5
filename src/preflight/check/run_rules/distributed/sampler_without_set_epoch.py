"""Sees whether samplers of ranks are told the epoch."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rule import Example
from preflight.check.rules.distributed.sampler_without_set_epoch import RULE
from preflight.vocabulary.finding import Finding

SETTLES = True
ALONE = False

_HEAD = """
import torch, torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
dist.init_process_group("nccl")
data = TensorDataset(torch.randn(64, 8), torch.randn(64, 2))
"""
_BODY = """
model = nn.parallel.DistributedDataParallel(nn.Linear(8, 2).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):{told}
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x.cuda()), y.cuda()).backward()
        optimizer.step()
"""


def _example(text: str, told: str = "") -> Example:
    return Example(_HEAD + text + _BODY.format(told=told), gpus=4)


BAD = (
    _example("sampler = DistributedSampler(data)\nloader = DataLoader(data, batch_size=4, sampler=sampler)\n"),
    _example(
        "def make(data):\n    return DataLoader(data, 4, sampler=DistributedSampler(data, shuffle=True))\nloader = make(data)\n"
    ),
    _example("loader = DataLoader(data, batch_size=4, sampler=DistributedSampler(data, seed=3), drop_last=True)\n"),
)

GOOD = (
    _example(
        "sampler = DistributedSampler(data)\nloader = DataLoader(data, batch_size=4, sampler=sampler)\n",
        "\n    getattr(sampler, 'set_' + 'epoch')(epoch)",
    ),
)


def observe(run: Run) -> Iterator[Finding]:
    """Find loaders with such a sampler in a run in which none was told an epoch."""
    told = run.seen("set_epoch")
    loaders = [loader for loader in run.profile.loaders if loader.trains and loader.sampler == "DistributedSampler"]
    if told or not loaders:
        return
    yield run.finding(
        RULE,
        loaders[0].line,
        "set_epoch() was never called while this loader was iterated: every epoch shuffles with the same seed",
        evidence=[seen("calls of set_epoch", 0), seen("times the loader was iterated", loaders[0].rounds)],
        fix=Fix(
            title="call set_epoch(epoch) at the start of each epoch",
            instruction="call sampler.set_epoch(epoch) before the loader is iterated",
            expected="each epoch has its own order",
        ),
    )
