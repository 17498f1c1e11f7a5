"""FSDP wraps the whole model as one unit.

## What it does
Looks for `FullyShardedDataParallel(model)` without `auto_wrap_policy` and without units inside, and for `fully_shard(model)` on the root alone.

## Why
FSDP gathers the parameters of one unit at a time.
With one unit it gathers the whole model for the whole forward and backward pass: the peak holds all parameters and all gradients, nothing overlaps with computing, and sharding saves little more than the optimizer states.

## Fix
Give `auto_wrap_policy` (such as `transformer_auto_wrap_policy` with the block class), or call `fully_shard` on each block before the root.

## When to ignore
For models small enough to be one block.

## References
- PyTorch tutorial, "Getting Started with Fully Sharded Data Parallel"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.evaluate.library.methods import is_module
from preflight.source.trace import Event, name_of
from preflight.source.values import Known, Obj, options_of, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="one-flat-unit",
    code="DST018",
    severity="warning",
    confidence="likely",
    needs=("complete",),
    layer="D",
    tags=("distributed", "memory"),
)

BAD = (
    """
import torch
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
torch.distributed.init_process_group("nccl")
model = FSDP(nn.TransformerEncoder(nn.TransformerEncoderLayer(512, 8), 24))
""",
    """
import argparse, torch
import torch.nn as nn
from torch.distributed import fsdp
def shard(model, args):
    return fsdp.FullyShardedDataParallel(model, device_id=args.gpu, use_orig_params=True, auto_wrap_policy=None)
p = argparse.ArgumentParser()
p.add_argument("--gpu", type=int, default=0)
model = shard(nn.Sequential(*[nn.Linear(512, 512) for _ in range(8)]), p.parse_args())
""",
    """
import torch
from torch import nn
from torch.distributed.fsdp import fully_shard as shard
class Trainer:
    def __init__(self, model):
        self.model = model
        shard(self.model)
Trainer(nn.Transformer())
""",
)

GOOD = (
    """
import functools, torch
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy
policy = functools.partial(size_based_auto_wrap_policy, min_num_params=1_000_000)
model = FSDP(nn.Transformer(), auto_wrap_policy=policy)
""",
    """
import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
model = nn.Sequential(*[nn.Linear(512, 512) for _ in range(8)])
for layer in model:
    fully_shard(layer)
fully_shard(model)
""",
    """
import torch
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.wrap import enable_wrap, wrap
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = wrap(nn.Linear(4, 4))
        self.b = FSDP(nn.Linear(4, 4))
with enable_wrap(wrapper_cls=FSDP):
    net = Net()
model = FSDP(net)
""",
    """
import torch
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, ShardingStrategy
model = FSDP(nn.Transformer(), sharding_strategy=ShardingStrategy.NO_SHARD)
""",
)

_FSDP = "torch.distributed.fsdp.FullyShardedDataParallel"
_SHARD = "torch.distributed.fsdp.fully_shard"
_INSIDE = (
    "torch.distributed.fsdp.wrap.wrap",
    "torch.distributed.fsdp.wrap.enable_wrap",
    "torch.distributed.fsdp.wrap.auto_wrap",
    "torch.distributed.fsdp.enable_wrap",
    "torch.distributed.fsdp.wrap",
)


def check(context: Context) -> Iterator[Finding]:
    """Find sharding with a single unit."""
    wraps = [e for e in context.trace.calls(_FSDP, _SHARD) if not e.context.shadow]
    nodes = {id(e.node) for e in wraps}
    if len(nodes) != 1 or context.trace.calls(*_INSIDE):
        return
    event = wraps[0]
    if any(f.kind == "loop" for f in event.context.frames()) or len(wraps) > 1 or not _whole(event):
        return
    policy = event.argument(3, "auto_wrap_policy") if event.name == _FSDP else None
    if policy is not None and not (isinstance(settle(policy), Known) and context.value(policy) is None):
        return
    strategy = settle(event.argument(2, "sharding_strategy") or Known(None))
    if not isinstance(strategy, Known) and not (name_of(strategy) or "").endswith(("FULL_SHARD", "HYBRID_SHARD")):
        return
    name = event.name.rpartition(".")[2]
    yield context.finding(
        RULE,
        event,
        f"{name} makes one unit of the whole model: all parameters are gathered at once in every forward and backward pass",
        evidence=[Evidence("units", 1), Evidence("auto_wrap_policy", None)],
        fix=Fix(
            title="make each block a unit",
            instruction="give auto_wrap_policy=transformer_auto_wrap_policy with the block class, or call fully_shard on every block first",
            expected="one block is gathered at a time: the peak falls by about the number of blocks",
        ),
    )


def _whole(event: Event) -> bool:
    """Whether what is sharded is a model whose inside was not sharded by code that is not seen."""
    given = event.argument(0, "module")
    options = [o for o in options_of(given, limit=4) if isinstance(o, Obj)]
    return (
        bool(options)
        and all(is_module(o) and o.kind in ("call", "instance") for o in options)
        and not event.kwargs.get("ignored_modules")
    )
