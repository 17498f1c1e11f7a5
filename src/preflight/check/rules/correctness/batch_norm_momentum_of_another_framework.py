"""The momentum of batch norm is the share that is kept, where torch takes the share that is new.

## What it does
Reports `nn.BatchNorm2d(width, momentum=0.99)` and its kin with a momentum from 0.9 to below 1.

## Why
In TensorFlow, Keras and Flax the momentum is the share of the running statistics that stays, and 0.99 is usual.
In torch it is the share of the new batch: with 0.99 the running mean and variance are those of the last batch.
Training looks the same, and the evaluation follows the chance of one batch.

## Fix
Give one minus the number: `momentum=0.01` for a momentum of 0.99.

## When to ignore
When the statistics are meant to be those of the last batch; a momentum of 1 says so more plainly, and is not reported.

## References
- PyTorch documentation, `torch.nn.BatchNorm1d`: the momentum differs from the one of optimizers and the conventional one
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.values import plain
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="batch-norm-momentum-of-another-framework",
    code="MOD020",
    severity="warning",
    confidence="likely",
    layer="D",
    tags=("modules",),
    beside=True,
)

BAD = (
    """
from torch import nn
net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, momentum=0.99, eps=1e-3), nn.ReLU())
""",
    """
import torch.nn as nn
class Block(nn.Module):
    def __init__(self, width, momentum):
        super().__init__()
        self.fc, self.norm = nn.Linear(width, width), nn.BatchNorm1d(width, 1e-5, momentum)
    def forward(self, x):
        return self.norm(self.fc(x))
net = Block(16, 0.9)
""",
    """
from functools import partial
from torch import nn
norm_of = partial(nn.BatchNorm2d, momentum=0.997)
layers = [nn.Conv2d(3, 8, 3), norm_of(8)]
net = nn.Sequential(*layers)
""",
)

GOOD = (
    """
from torch import nn
net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, momentum=0.01), nn.BatchNorm2d(8), nn.BatchNorm2d(8, momentum=None))
""",
    """
from torch import nn
calibrated = nn.BatchNorm1d(8, momentum=1.0)
half = nn.BatchNorm1d(8, momentum=0.5)
""",
    """
from torch import nn
norm = nn.BatchNorm1d(8, momentum=0.99, track_running_stats=False)
""",
    """
from torch import nn
net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8, momentum=0.9))
def set_momentum(epoch):
    for layer in net.modules():
        if isinstance(layer, nn.BatchNorm1d):
            layer.momentum = max(0.5 * 0.5 ** (epoch // 20), 0.01)
for epoch in range(200):
    set_momentum(epoch)
    train_one(net)
""",
    """
from torch import nn
from torch.optim.swa_utils import update_bn
net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8, momentum=0.95))
fit(net, loader)
update_bn(loader, net)
""",
    """
from torch import nn
from settings import momentum
norm = nn.BatchNorm1d(8, momentum=momentum)
""",
)

_LEAST = 0.9
_LAYERS = tuple(f"torch.nn.{name}" for name in ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"))
_MOMENTUM = 2
"""The place of the momentum among the arguments."""
_TRACKED = 4


def check(context: Context) -> Iterator[Finding]:
    """Look for layers whose momentum is nearly one; a place in the text is told once."""
    if _set_afterwards(context):
        return
    told = set()
    for event in context.trace.calls(*_LAYERS):
        given = event.argument(_MOMENTUM, "momentum")
        momentum = plain(given) if given is not None else None
        if isinstance(momentum, bool) or not isinstance(momentum, (int, float)) or not _LEAST <= momentum < 1:
            continue
        tracked = event.argument(_TRACKED, "track_running_stats")
        place = (id(event.script), id(event.node))
        if (tracked is not None and plain(tracked) is not True) or place in told or event.context.shadow:
            continue
        told.add(place)
        yield context.finding(
            RULE,
            event,
            f"a momentum of {momentum:g} makes the running statistics those of the last batch: torch takes the new share",
            evidence=[
                Evidence("share of the running statistics that stays", round(1 - momentum, 6), f"1 - {momentum:g}")
            ],
            fix=Fix(
                title="give the share of the new batch",
                instruction=f"give one minus the number: momentum={round(1 - momentum, 6):g}",
                expected="the running statistics average many batches",
            ),
        )


def _set_afterwards(context: Context) -> bool:
    """Whether the momentum of layers is set once they are made, or their statistics are computed anew from many batches."""
    if context.trace.calls("torch.optim.swa_utils.update_bn", ".reset_running_stats"):
        return True
    return any(
        node.attr == "momentum"
        and isinstance(node.ctx, ast.Store)
        and not (isinstance(node.value, ast.Name) and node.value.id == "self")
        for script in context.reading.scripts
        for node in script.nodes(ast.Attribute)
    )
