"""Sees how many values batch norm normalises over on one of several GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rule import Example
from preflight.check.rules.correctness.batch_norm_over_small_share import RULE
from preflight.vocabulary.finding import Finding

_FEW = 16
_VALUES = 4096
"""Over so many values the mean and the variance are known to 2 %, however few the examples: sqrt(2 / 4096)."""

_START = """
import os, torch
from torch import nn
torch.distributed.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
def wrapped(module):
    return nn.parallel.DistributedDataParallel(module.cuda())
"""
_LOOP = """
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    net(batch()).square().mean().backward()
    optimizer.step()
"""
_LAUNCH = "torchrun --nproc_per_node 2 train.py"

BAD = (
    Example(
        f"""{_START}
net = wrapped(nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)))
def batch():
    return torch.randn(4, 8, device="cuda")
{_LOOP}""",
        launch=_LAUNCH,
    ),
    Example(
        f"""{_START}
def block(width):
    return [nn.Conv2d(3, width, 3, stride=2), getattr(nn, "BatchNorm2d")(width), nn.ReLU()]
net = wrapped(nn.Sequential(*block(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2)))
def batch():
    return torch.randn(2, 3, 16, 16).cuda()
{_LOOP}""",
        launch=_LAUNCH,
    ),
    Example(
        f"""{_START}
class Net(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.fc, self.norm = nn.Linear(8, 8), norm(8)
    def forward(self, x):
        return self.norm(self.fc(x))
net = wrapped(Net(nn.BatchNorm1d))
def batch(whole=16):
    return torch.randn(whole // torch.distributed.get_world_size(), 8, device="cuda")
{_LOOP}""",
        launch=_LAUNCH,
    ),
)

GOOD = (
    Example(
        f"""{_START}
net = wrapped(nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)))
def batch():
    return torch.randn(32, 8, device="cuda")
{_LOOP}""",
        launch=_LAUNCH,
    ),
    Example(
        """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)).cuda()
def batch():
    return torch.randn(4, 8, device="cuda")
"""
        + _LOOP
    ),
)


def observe(run: Run) -> Iterator[Finding]:
    """Find batch norm in training steps of one of several processes, over few examples."""
    world = run.profile.world or 1
    if world < 2:
        return
    few = [
        item
        for item in run.seen("batch norm")
        if item.data["training"] and item.data["graph"] and not item.data["frozen"] and item.step
        if item.data["kind"] != "SyncBatchNorm" and 0 < item.data["batch"] < _FEW and item.data["rows"] < _VALUES
    ]
    if not few:
        return
    layers = len({item.module for item in few})
    worst = min(few, key=lambda item: int(item.data["rows"]))
    yield run.finding(
        RULE,
        worst.line,
        f"each of {world} GPUs normalises over its own {worst.data['batch']} examples in {layers} batch norm layers, "
        f"over {worst.data['rows']} values for each channel in {worst.module}",
        evidence=[
            seen("examples on this GPU", worst.data["batch"]),
            seen("values for each channel", worst.data["rows"]),
            seen("layers", layers),
        ],
        fix=Fix(
            title="synchronise batch norm, or use group norm",
            instruction="torch.nn.SyncBatchNorm.convert_sync_batchnorm(model) before wrapping",
            expected=f"statistics over {world} times as many examples",
        ),
    )


def disproves(run: Run, finding: Finding) -> bool:
    """Whether every batch norm of the training was seen to have enough values."""
    found = [item for item in run.seen("batch norm") if item.data["training"] and item.data["graph"]]
    return bool(found) and not any(True for _ in observe(run))
