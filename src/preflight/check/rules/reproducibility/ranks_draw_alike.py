"""Every rank draws the same random numbers for dropout and augmentation.

## What it does
Looks for a distributed script in which all seeds are the same on every rank, and the network has dropout or the data random transforms.

## Why
The ranks see different samples, but drop the same units and crop, flip and colour in the same way.
With 8 ranks a step then has the variety of one rank: 8 copies of each draw instead of 8 draws.
The weights must begin alike on all ranks, but DDP copies them from rank 0 anyway.

## Fix
Add the rank to the seed after the model is made: `torch.manual_seed(seed + rank)`.

## When to ignore
When ranks must agree on what they draw: a random split of the data, tensor-parallel ranks of one layer.

## References
- Accelerate documentation, `set_seed(device_specific=True)`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.ranks import carries_rank, makes_group
from preflight.source.trace import Event
from preflight.source.values import Known, plain, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="ranks-draw-alike",
    code="DST014",
    severity="info",
    confidence="likely",
    needs=("distributed", "complete"),
    layer="D",
    tags=("distributed", "randomness"),
)

_NET = """
net = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.1), nn.Linear(8, 2)).cuda()
net = nn.parallel.DistributedDataParallel(net)
"""
BAD = (
    """
import torch
import torch.distributed as dist
from torch import nn
torch.manual_seed(0)
dist.init_process_group("nccl")
"""
    + _NET,
    """
import argparse
import torch as t
from torch import nn
from torch.distributed import init_process_group
def seed_all(n):
    t.manual_seed(n)
    t.cuda.manual_seed_all(n)
parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=42)
init_process_group("nccl")
seed_all(parser.parse_args().seed)
"""
    + _NET,
    """
from torch import nn
import torch.distributed as dist
import transformers
from torchvision import transforms as T
dist.init_process_group("nccl")
transformers.set_seed(seed=7)
crop = T.RandomResizedCrop(224)
net = nn.parallel.DistributedDataParallel(nn.Linear(4, 2).cuda())
""",
)

GOOD = (
    """
import torch
import torch.distributed as dist
from torch import nn
torch.manual_seed(0)
dist.init_process_group("nccl")
"""
    + _NET
    + "torch.manual_seed(dist.get_rank())\n",
    """
import torch
import torch.distributed as dist
from torch import nn
torch.manual_seed(0)
dist.init_process_group("nccl")
net = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.0)))
""",
    """
import torch
import torch.distributed as dist
from torch import nn
dist.init_process_group("nccl")
"""
    + _NET,
)

_SEEDS = (
    "torch.manual_seed",
    "torch.random.manual_seed",
    "torch.cuda.manual_seed",
    "torch.cuda.manual_seed_all",
    "transformers.set_seed",
    "accelerate.utils.set_seed",
)
_DRAWS = ("torch.nn.Dropout", "torch.nn.Dropout2d", "torch.nn.Dropout1d", "torch.nn.AlphaDropout")
_CUTS = (
    "torch.distributed.tensor.parallel.parallelize_module",
    "torch.distributed.pipelining.PipelineStage",
    "deepspeed.pipe.PipelineModule",
    "lightning.pytorch.seed_everything",
)


def check(context: Context) -> Iterator[Finding]:
    """Find seeds that are the same on all ranks where something is drawn on each."""
    trace = context.trace
    groups = [e for e in makes_group(trace) if not e.context.shadow]
    if not groups or trace.calls(*_CUTS) or trace.calls_under("megatron."):
        return
    seeds = [e for e in trace.calls(*_SEEDS) if not e.context.shadow]
    if not seeds or any(_differs(e) for e in (*seeds, *trace.calls("torch.cuda.set_rng_state", "torch.set_rng_state"))):
        return
    if any(e.argument(0, "seed") is None for e in seeds) or trace.calls(".manual_seed"):
        return
    if "worker_init_fn" in {k for made in context.reading.made("loader") for k in made.kwargs}:
        return
    drawn = next((e for e in _drawing(context)), None)
    if drawn is None:
        return
    last = seeds[-1]
    yield context.finding(
        RULE,
        last,
        "every rank is seeded alike: all of them drop the same units and augment in the same way",
        evidence=[Evidence("seed on every rank", plain(last.argument(0, "seed")))],
        related=[(drawn, "drawn on every rank"), (groups[0], "the ranks")],
        fix=Fix(
            title="add the rank to the seed",
            instruction="after the model is made, call torch.manual_seed(seed + rank)",
            expected="the ranks draw independently of each other",
        ),
    )


def _differs(event: Event) -> bool:
    """Whether a seed depends on the rank, or may do so through code that was not followed."""
    if plain(event.kwargs.get("device_specific")) is True or not event.name.endswith(("seed", "seed_all")):
        return True
    given = event.argument(0, "seed")
    return given is not None and (carries_rank(given) or not isinstance(settle(given), Known))


def _drawing(context: Context) -> Iterator[Event]:
    """Layers and transforms of the defaults' path that draw."""
    for event in context.trace.calls(*_DRAWS):
        p = plain(event.argument(0, "p"), 0.5 if event.argument(0, "p") is None else 0)
        if not event.context.shadow and isinstance(p, (int, float)) and p > 0:
            yield event
    for event in context.trace.calls_under("torchvision.transforms.Random", "torchvision.transforms.v2.Random"):
        if not event.context.shadow:
            yield event
