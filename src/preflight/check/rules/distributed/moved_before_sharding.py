"""Whole model is moved to the GPU before it is sharded.

## What it does
Looks for `FullyShardedDataParallel(model.cuda())`, or `model.to(device)` before FSDP takes the model.

## Why
The full parameters then lie on every GPU before the first shard is cut: a model that only fits when it is sharded runs out of memory here, before training begins.

## Fix
Leave the model on the CPU (or the meta device) and give `device_id=torch.cuda.current_device()`: FSDP moves one unit at a time.

## When to ignore
When the whole model fits on one GPU; then moving first makes the initialisation faster.

## References
- PyTorch documentation, FullyShardedDataParallel, argument `device_id`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.evaluate.library.torch import wrapped
from preflight.source.trace import Event
from preflight.source.training import same_guards
from preflight.source.values import Known, Obj, options_of, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="moved-before-sharding",
    code="DST021",
    severity="info",
    confidence="certain",
    layer="D",
    tags=("distributed", "memory"),
)

BAD = (
    """
import torch
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
model = nn.Transformer().cuda()
model = FSDP(model, auto_wrap_policy=policy)
""",
    """
import argparse, torch
import torch.nn as nn
from torch.distributed import fsdp
def shard(model, args):
    model.to(torch.device("cuda", args.local_rank))
    return fsdp.FullyShardedDataParallel(model, auto_wrap_policy=policy)
p = argparse.ArgumentParser()
p.add_argument("--local_rank", type=int, default=0)
model = shard(nn.Transformer(), p.parse_args())
""",
    """
import torch
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel
class Trainer:
    def __init__(self):
        self.model = nn.Transformer()
        self.model = FullyShardedDataParallel(self.model.to("cuda"), auto_wrap_policy=policy)
Trainer()
""",
)

GOOD = (
    """
import torch
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
model = FSDP(nn.Transformer(), auto_wrap_policy=policy, device_id=torch.cuda.current_device())
model.to("cuda")
""",
    """
import torch
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
model = nn.Transformer().to(torch.bfloat16)
teacher = nn.Transformer().cuda()
model = FSDP(model, auto_wrap_policy=policy)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find moves of a model that is sharded later."""
    for wrap in context.trace.calls("torch.distributed.fsdp.FullyShardedDataParallel"):
        inside = [id(wrapped(o)) for o in options_of(wrap.argument(0, "module"), limit=4)]
        for event in context.trace.calls(".cuda", ".to"):
            if (
                event.number > wrap.number
                or not _to_gpu(context, event)
                or not same_guards(event, wrap)
                or event.context.shadow
            ):
                continue
            if any(isinstance(o, Obj) and id(o) in inside for o in options_of(event.receiver, limit=4)):
                yield _finding(context, event, wrap)
                break


def _finding(context: Context, event: Event, wrap: Event) -> Finding:
    return context.finding(
        RULE,
        event,
        "the whole model is moved to every GPU before FSDP shards it: the peak before training is the full model",
        evidence=[Evidence("parameters on each GPU before sharding", "all")],
        fix=Fix(
            title="let FSDP move the model",
            instruction="drop this move and give FSDP device_id=torch.cuda.current_device()",
            expected="one unit at a time is moved and sharded",
        ),
        related=[(wrap, "the model is sharded here")],
    )


def _to_gpu(context: Context, event: Event) -> bool:
    if event.name == ".cuda":
        return True
    target = settle(event.argument(0, "device") or Known(None))
    if isinstance(target, Obj) and target.name == "torch.device":
        target = settle(target.args[0]) if target.args else target
    if isinstance(target, Obj):
        return target.name in ("torch.cuda.current_device",)
    return (
        isinstance(target, Known)
        and (isinstance(target.value, int) or str(target.value).startswith("cuda"))
        and target.value is not True
    )
