"""Batch norm sees a small part of the batch.

## What it does
Reports a network with batch norm that is trained on several GPUs with fewer than 16 examples on each, without synchronised batch norm.

## Why
Each process normalises with the mean and the variance of its own examples.
The variance of n examples has a relative error of about sqrt(2 / (n - 1)): 82 % for 4, 37 % for 16; the error of an ImageNet ResNet rises from 23.6 % with 32 examples to 34.7 % with 2.

## Fix
`model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)` before wrapping, or group norm.

## When to ignore
When batch norm is frozen, or feature maps are so large that even few images give many values.

## References
- Wu and He, "Group Normalization" (2018), figure 1
- PyTorch documentation of SyncBatchNorm
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.loaders import given, setting, training_loaders
from preflight.check.queries.parameters import parts_of
from preflight.check.rule import Rule
from preflight.source.evaluate.library.torch import wrapped
from preflight.source.values import Obj, plain
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="batch-norm-over-small-share",
    code="MOD011",
    severity="info",
    confidence="likely",
    needs=("model", "loader", "distributed"),
    layer="C",
    tags=("modes", "distributed"),
)

_WRAP = """
torch.distributed.init_process_group("nccl")
"""

BAD = (
    f"""
import torch
from torch import nn
from torch.utils.data import DataLoader
{_WRAP}
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10)).cuda()
model = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(data, batch_size=4, shuffle=True):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
""",
    f"""
import argparse, torch
from torchvision import models
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
args = p.parse_args()
{_WRAP}
net = DDP(models.resnet50().cuda())
opt = torch.optim.SGD(net.parameters(), lr=0.1)
loader = DataLoader(data, args.batch_size, shuffle=True)
for x, y in loader:
    opt.zero_grad()
    torch.nn.functional.cross_entropy(net(x), y).backward()
    opt.step()
""",
    f"""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8), nn.BatchNorm1d(8)])
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
def main(share):
    {_WRAP.strip()}
    net = nn.parallel.DistributedDataParallel(Net().cuda())
    opt = torch.optim.AdamW(net.parameters())
    for x, y in DataLoader(data, batch_size=share, shuffle=True):
        opt.zero_grad()
        nn.functional.mse_loss(net(x), y).backward()
        opt.step()
main(2)
""",
)

GOOD = (
    BAD[0].replace("batch_size=4", "batch_size=64"),
    BAD[0].replace(
        "model = nn.parallel", "model = nn.SyncBatchNorm.convert_sync_batchnorm(model)\nmodel = nn.parallel"
    ),
    BAD[0].replace("nn.BatchNorm2d(8)", "nn.GroupNorm(2, 8)"),
    BAD[1].replace("models.resnet50()", "models.vit_b_16()"),
)

_SMALL = 16
_LAYER = r"^torch\.nn\.(Lazy)?BatchNorm[123]d$"
_NETWORKS = (
    r"^torchvision\.models\.((wide_)?resnet|resnext|densenet|mobilenet|efficientnet|regnet|inception|googlenet|shufflenet"
    r"|mnasnet|vgg\d+_bn)\w*$"
)
_WRAPPERS = ("torch.nn.parallel.DistributedDataParallel", "apex.parallel.DistributedDataParallel")


def check(context: Context) -> Iterator[Finding]:
    """Look for batch norm in what is wrapped, and for the batch of one process."""
    trace = context.trace
    if any(name.endswith(("convert_sync_batchnorm", "convert_syncbn_model")) for name in trace.by_name):
        return
    sizes = [
        (o, setting(o, "batch_size")) for o in training_loaders(context) if plain(given(o, "batch_sampler")) is None
    ]
    known = [(o, size) for o, size in sizes if isinstance(size, int) and not isinstance(size, bool)]
    if not known or len(known) != len(sizes):
        return
    loader, size = max(known, key=lambda pair: pair[1])
    if size >= _SMALL or context.parallel.world_size == 1 and context.gpus == 1:
        return
    for event in trace.calls(*_WRAPPERS):
        model = wrapped(event.argument(0, "module"))
        norm = _batch_norm(model) if isinstance(model, Obj) and not event.context.shadow else None
        if norm is None:
            continue
        share = math.sqrt(2 / (size - 1)) if size > 1 else None
        error = f"sqrt(2 / ({size} - 1)) = {100 * share:.0f} %" if share is not None else "one example has no variance"
        yield context.finding(
            RULE,
            event,
            f"batch norm takes its statistics from the {size} examples of one process, not from the whole batch",
            evidence=[
                Evidence("examples per process", size),
                Evidence(
                    "relative error of the variance", round(share, 2) if share is not None else None, arithmetic=error
                ),
            ],
            related=[(norm, "batch norm is in here"), (loader, "the batch of a process is set here")],
            fix=Fix(
                title="synchronise the statistics",
                instruction="call torch.nn.SyncBatchNorm.convert_sync_batchnorm(model) before wrapping, or use group norm",
                expected="statistics come from all processes",
            ),
        )
        return


def _batch_norm(model: Obj) -> Obj | None:
    """A batch-norm layer of a model, or the library network that holds some."""
    for part in parts_of(model).values():
        if part.cls is None and (re.match(_LAYER, part.name) or re.match(_NETWORKS, part.name)):
            frozen = part.name.startswith("torch.nn.") and plain(part.kwargs.get("track_running_stats"), True) is False
            if not frozen:
                return part
    return None
