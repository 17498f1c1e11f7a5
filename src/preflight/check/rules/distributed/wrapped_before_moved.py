"""Model is moved or converted after it was wrapped.

## What it does
Looks for `.to(device)` or `.cuda()` on a DistributedDataParallel model, and for `convert_sync_batchnorm` of one.

## Why
DistributedDataParallel broadcasts the parameters and builds its buckets when it is made.
A model that is moved afterwards has been broadcast on the CPU, which NCCL refuses, and its buckets point to the old device.
SyncBatchNorm layers that replace others inside the wrapper share their parameters, so training goes on; the wrapper was set up for the layers before them, and the documented order is the other one.

## Fix
Move and convert first, wrap last: `DistributedDataParallel(convert_sync_batchnorm(model).to(device), device_ids=[local_rank])`.

## When to ignore
When the model already was on that device and the call changes nothing.

## References
- PyTorch documentation, DistributedDataParallel and SyncBatchNorm.convert_sync_batchnorm
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import Known, Obj, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="wrapped-before-moved", code="DST016", severity="error", confidence="likely", layer="D", tags=("distributed",)
)

BAD = (
    """
import torch
from torch import nn
torch.distributed.init_process_group("nccl")
model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
model.cuda()
""",
    """
import os, torch
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
def build(device):
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))
    net = DDP(net)
    return net.to(device)
torch.distributed.init_process_group("nccl")
net = build(torch.device("cuda", int(os.environ["LOCAL_RANK"])))
""",
    """
import argparse, torch
from torch import nn
class Trainer:
    def __init__(self, args):
        self.model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).cuda(args.gpu)
        self.model = nn.parallel.DistributedDataParallel(self.model, device_ids=[args.gpu])
        self.model = nn.SyncBatchNorm.convert_sync_batchnorm(self.model)
p = argparse.ArgumentParser()
p.add_argument("--gpu", type=int, default=0)
Trainer(p.parse_args())
""",
)

GOOD = (
    """
import torch
from torch import nn
torch.distributed.init_process_group("nccl")
model = nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm2d(3)).cuda()
model = nn.parallel.DistributedDataParallel(model, device_ids=[0])
model.module.to("cuda:0")
batch = batch.to("cuda")
""",
    """
import torch
from torch import nn
model = nn.DataParallel(nn.Linear(4, 2))
model.cuda()
other = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
other.to(memory_format=torch.channels_last)
other.to("cpu")
""",
    """
import torch
from torch import nn
def train(rank):
    device = torch.device("cuda:0")
    net = nn.Linear(4, 2).to(device)
    net = nn.parallel.DistributedDataParallel(net, device_ids=[0]).to(device)
train(0)
""",
)

_DDP = "torch.nn.parallel.DistributedDataParallel"


def check(context: Context) -> Iterator[Finding]:
    """Find moves and conversions of wrapped models."""
    for event in context.trace.calls(".to", ".cuda", "torch.nn.SyncBatchNorm.convert_sync_batchnorm"):
        converts = event.name.startswith("torch.")
        target = _ddp(event.argument(0, "module") if converts else event.receiver)
        if target is None or not (converts or (_moves(context, event) and not _moved_before(context, target))):
            continue
        text = (
            "converted to SyncBatchNorm after DistributedDataParallel was made around it: "
            "the wrapper was told of the layers that stood there before"
            if converts
            else "moved to its device after DistributedDataParallel was made around it: the reducer keeps what it saw before"
        )
        yield context.finding(
            RULE,
            event,
            f"the model is {text}",
            severity="warning" if converts else None,  # the new layers share the parameters and buffers of the old
            evidence=[
                Evidence(
                    "line of DistributedDataParallel",
                    getattr(target.site.node, "lineno", None) if target.site else None,
                )
            ],
            fix=Fix(
                title="wrap the model last",
                instruction="convert and move the model first, then wrap it in DistributedDataParallel",
                expected="the reducer is built for the parameters that are trained",
            ),
            related=[(target, "the model is wrapped here")],
        )


def _ddp(value: Value | None) -> Obj | None:
    base = settle(value) if value is not None else None
    return base if isinstance(base, Obj) and base.kind == "call" and base.name == _DDP else None


def _moves(context: Context, event: Event) -> bool:
    """Whether a call moves to a GPU (a move to the CPU comes after training, as a rule)."""
    if event.name == ".cuda":
        return True
    if not event.args and "device" not in event.kwargs:
        return False
    target = settle(event.argument(0, "device") or Known(None))
    if isinstance(target, Obj) and target.name == "torch.device":
        target = settle(target.args[0]) if target.args else target
    return isinstance(target, Known) and (isinstance(target.value, int) or str(target.value).startswith("cuda"))


def _moved_before(context: Context, target: Obj) -> bool:
    """Whether the model was on its device when it was wrapped: then a second move changes nothing."""
    inner = target.argument(0, "module")
    if inner is None or not isinstance(settle(inner), Obj):
        return True  # what is wrapped is not known, so neither is where it lies
    return any(event.number < target.number for event in context.trace.on(settle(inner), "to", "cuda"))
