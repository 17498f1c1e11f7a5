"""Ranks have different numbers of batches.

## What it does
Looks for training data that is dealt out by hand, each rank taking every world-size-th sample, where the number of samples and of ranks is known; and counts the batches of each rank.

## Why
`DistributedSampler` gives every rank the same number of samples; a slice `[rank::world]` does not.
50,000 samples on 6 ranks are 8,334 for two of them and 8,333 for the others: with a batch of 1 the first two take one step more.
From then on the all-reduces of different steps meet, and the last one is never answered.

## Fix
Use `DistributedSampler`, cut the data to a multiple of ranks x batch, or train inside `model.join()`.

## When to ignore
When the loop ends after a number of steps that every rank reaches.

## References
- PyTorch documentation, `torch.distributed.algorithms.Join`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.counts import examples
from preflight.check.queries.loaders import UNKNOWN, dataset_of, setting, training_loaders
from preflight.check.rule import Example, Rule
from preflight.source.ranks import rank_kind
from preflight.source.values import Obj, Value, plain, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="ranks-run-different-steps",
    code="DST017",
    severity="error",
    confidence="likely",
    needs=("distributed", "training_loop", "loader"),
    layer="C",
    tags=("distributed", "data"),
)

_START = """
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Subset
from torchvision import datasets
dist.init_process_group("nccl")
model = nn.parallel.DistributedDataParallel(nn.Conv2d(3, 2, 3).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = datasets.CIFAR10("data")
"""
_LOOP = """
for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
"""
_SIX = "torchrun --nproc_per_node 6 train.py"
BAD = (
    Example(
        _START
        + """
mine = Subset(data, range(dist.get_rank(), len(data), dist.get_world_size()))
loader = DataLoader(mine, batch_size=1)
"""
        + _LOOP,
        launch=_SIX,
    ),
    Example(
        _START
        + """
def shard(data, rank, world):
    order = torch.randperm(len(data)).tolist()
    return torch.utils.data.Subset(dataset=data, indices=order[rank::world])
loader = DataLoader(shard(data, int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])), 8334, drop_last=True)
"""
        + _LOOP,
        gpus=6,
    ),
    Example(
        _START
        + """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=8333)
args = parser.parse_args()
rank, world = dist.get_rank(), dist.get_world_size()
loader = DataLoader(Subset(data, torch.arange(len(data))[rank::world]), batch_size=args.batch)
"""
        + _LOOP,
        launch=_SIX,
    ),
)
GOOD = (
    Example(BAD[0].code.replace("batch_size=1", "batch_size=32"), launch=_SIX),
    Example(BAD[0].code, launch="torchrun --nproc_per_node 8 train.py"),
    BAD[0].code,
    Example(
        _START
        + """
sampler = torch.utils.data.DistributedSampler(data)
loader = DataLoader(data, batch_size=1, sampler=sampler)
"""
        + _LOOP,
        launch=_SIX,
    ),
)

_REDUCERS = ("torch.nn.parallel.DistributedDataParallel", "torch.distributed.fsdp.FullyShardedDataParallel")


def check(context: Context) -> Iterator[Finding]:
    """Count the batches of each rank."""
    world = context.fact("world_size")
    trace = context.trace
    if not isinstance(world, int) or world < 2 or trace.calls(".join", "torch.distributed.algorithms.Join"):
        return
    if not any(not e.context.shadow for e in trace.calls(*_REDUCERS)):
        return
    for loader in training_loaders(context):
        data, batch, drop = dataset_of(loader), setting(loader, "batch_size"), setting(loader, "drop_last")
        total = _dealt(data, world)
        if total is None or not isinstance(batch, int) or batch < 1 or drop is UNKNOWN or setting(loader, "sampler"):
            continue
        shares = [-(-(total - rank) // world) for rank in range(world)]
        batches = [n // batch if drop else -(-n // batch) for n in shares]
        if max(batches) == min(batches):
            continue
        yield context.finding(
            RULE,
            loader,
            f"{total:,} samples dealt to {world} ranks make {max(batches):,} batches on rank 0 and {min(batches):,} on the last: "
            "gradients of different steps are averaged, and at the end rank 0 waits for the others until the timeout",
            evidence=[
                Evidence(
                    "batches of rank 0", max(batches), None, "derived", f"{shares[0]:,} samples in batches of {batch}"
                ),
                Evidence("batches of the last rank", min(batches), None, "derived", f"{shares[-1]:,} samples"),
            ],
            fix=Fix(
                title="give every rank the same number of samples",
                instruction=f"use DistributedSampler, or cut the data to a multiple of {world} x {batch}",
                expected="all ranks take the same number of steps",
            ),
        )


def _dealt(data: Value | None, world: int) -> int | None:
    """The number of samples of a subset that takes every world-size-th one from the rank on; None where it is not such a one."""
    if not isinstance(data, Obj) or data.name != "torch.utils.data.Subset" or data.cls is not None:
        return None
    given = data.argument(1, "indices")
    indices = settle(given) if given is not None else None
    if isinstance(indices, Obj) and indices.kind == "item" and indices.args:
        indices = settle(indices.args[0])
    if not isinstance(indices, Obj) or indices.name not in ("builtins.range", "slice") or len(indices.args) != 3:
        return None
    if rank_kind(indices.args[0]) != "global" or plain(indices.args[2]) != world:
        return None
    return examples(data.argument(0, "dataset"))
