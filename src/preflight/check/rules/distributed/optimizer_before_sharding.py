"""Optimizer is built before the model is sharded.

## What it does
Looks for an optimizer that takes parameters of a model before `FullyShardedDataParallel(model)` or `fully_shard(model)` is applied to it.

## Why
Sharding replaces the parameters: FSDP flattens them, `fully_shard` turns them into DTensors.
The optimizer goes on updating the old tensors, which the model no longer uses; the loss stays where it is, and the states of the full model take memory on every rank.

## Fix
Build the optimizer after the model is wrapped or sharded.

## When to ignore
Never for plain PyTorch; Accelerate's `prepare` repairs the order and is not reported.

## References
- PyTorch documentation, FullyShardedDataParallel: the optimizer must be initialized after the module has been wrapped
- PyTorch documentation, fully_shard
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.evaluate.library.torch import wrapped
from preflight.source.trace import Event, provenance
from preflight.source.training import same_guards
from preflight.source.values import Obj, options_of
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="optimizer-before-sharding",
    code="DST005",
    severity="error",
    confidence="likely",
    needs=("optimizer",),
    layer="D",
    tags=("distributed", "optimizer"),
)

BAD = (
    """
import torch
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
torch.distributed.init_process_group("nccl")
model = nn.Linear(4, 2).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model = FSDP(model)
""",
    """
import torch, argparse
import torch.nn as nn
from torch.distributed._composable.fsdp import fully_shard
def build(lr):
    net = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))
    opt = torch.optim.Adam([{"params": net.parameters(), "lr": lr}])
    for layer in net:
        fully_shard(layer)
    fully_shard(net)
    return net, opt
p = argparse.ArgumentParser()
p.add_argument("--lr", type=float, default=1e-3)
net, opt = build(p.parse_args().lr)
""",
    """
import torch
from torch import nn
from torch.distributed import fsdp
class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.model = fsdp.FullyShardedDataParallel(self.model, use_orig_params=True)
trainer = Trainer(nn.Linear(4, 2))
""",
)

GOOD = (
    """
import torch
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
torch.distributed.init_process_group("nccl")
model = FSDP(nn.Linear(4, 2).cuda())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
""",
    """
import torch
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
teacher = FSDP(nn.Linear(4, 2).cuda())
student = nn.Linear(4, 2)
optimizer = torch.optim.AdamW(student.parameters(), lr=1e-3)
other = FSDP(nn.Linear(4, 2))
""",
    """
import argparse, torch
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
p = argparse.ArgumentParser()
p.add_argument("--fsdp", action="store_true")
args = p.parse_args()
model = nn.Linear(4, 2).cuda()
if not args.fsdp:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
else:
    model = FSDP(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
""",
)

_SHARDING = (
    "torch.distributed.fsdp.FullyShardedDataParallel",
    "torch.distributed.fsdp.fully_shard",
    "fairscale.nn.FullyShardedDataParallel",
)


def check(context: Context) -> Iterator[Finding]:
    """Find optimizers over parameters that are sharded later."""
    if context.reading.made("accelerator") or context.reading.made("fabric"):
        return
    wraps = context.trace.calls(*_SHARDING)
    for optimizer in context.reading.made("optimizer") if wraps else []:
        made = context.reading.event_of(optimizer)
        if made is None:
            continue
        holders = _holders(optimizer)
        for wrap in wraps:
            if wrap.number < made.number or not same_guards(made, wrap) or wrap.context.shadow:
                continue
            if not any(id(o) in holders for o in _modules(wrap)):
                continue
            yield context.finding(
                RULE,
                made,
                f"this optimizer takes the model's parameters before {wrap.name.rpartition('.')[2]} replaces them: it will update tensors that the model no longer uses",
                evidence=[
                    Evidence("line of the optimizer", getattr(made.node, "lineno", None)),
                    Evidence("line of the sharding", getattr(wrap.node, "lineno", None)),
                ],
                fix=Fix(
                    title="build the optimizer after the model is sharded",
                    instruction="move the optimizer below the sharding call",
                    expected="the optimizer updates the shards that the model uses",
                ),
                related=[(wrap, "the parameters are replaced here")],
            )
            break


def _holders(optimizer: Obj) -> set[int]:
    """The modules whose parameters an optimizer was given."""
    found: set[int] = set()
    for value in (*optimizer.args, *optimizer.kwargs.values()):
        for part in provenance(value, 200):
            if isinstance(part, Obj) and part.name in (".parameters", ".named_parameters"):
                for option in options_of(part.receiver, limit=4):
                    inner = wrapped(option)
                    if inner is not None and inner is option:
                        found.add(id(inner))
    return found


def _modules(wrap: Event) -> list[object]:
    given = wrap.argument(0, "module")
    return [wrapped(o) for o in options_of(given, limit=4)]
