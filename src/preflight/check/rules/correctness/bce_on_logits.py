"""BCE is given numbers that are not probabilities.

## What it does
Follows the input of `binary_cross_entropy` / `BCELoss` back and reports when a linear or convolution layer made it, so that it is not confined to [0, 1].

## Why
The loss takes log(p) and log(1 - p).
PyTorch checks the range and stops with "all elements of input should be between 0 and 1" on the first negative number: on a GPU as a device-side assertion, far from the line that caused it.

## Fix
Use `BCEWithLogitsLoss`, or apply a sigmoid.

## When to ignore
Never.

## References
- PyTorch documentation of BCELoss: inputs are probabilities
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.losses import loss_calls
from preflight.check.queries.tensors import VIEWS, operation, origin, source_text
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(name="bce-on-logits", code="LOS010", severity="error", confidence="certain", layer="D", tags=("loss",))

BAD = (
    """
import torch.nn as nn
model = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 1))
criterion = nn.BCELoss()
for x, y in loader:
    criterion(model(x).squeeze(1), y).backward()
""",
    """
import torch
from torch.nn.functional import binary_cross_entropy as bce
class Discriminator(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 4), torch.nn.LeakyReLU(0.2), torch.nn.Conv2d(8, 1, 4))
    def forward(self, x):
        return self.body(x).view(-1)
d = Discriminator()
def d_loss(x, y):
    return bce(d(x), y)
for x, y in loader:
    d_loss(x, y).backward()
""",
    """
import argparse
from torch import nn
p = argparse.ArgumentParser()
p.add_argument("--classes", type=int, default=5)
a = p.parse_args()
net = nn.Linear(8, a.classes)
loss_fn = nn.BCELoss(reduction="sum")
for x, y in loader:
    out = net(x)
    loss_fn(out, y).backward()
""",
)

GOOD = (
    """
import torch, torch.nn as nn
net = nn.Linear(8, 1)
for x, y in loader:
    p = torch.sigmoid(net(x))
    nn.BCELoss()(p, y).backward()
""",
    """
import torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 1)
    def forward(self, x):
        x = self.fc(x)
        return 0.5 * (x.tanh() + 1)
net = Net()
for x, y in loader:
    nn.BCELoss()(net(x), y).backward()
""",
)

_UNBOUNDED = frozenset({
    "nn.Linear", "linear", "nn.Conv1d", "nn.Conv2d", "nn.Conv3d", "nn.ConvTranspose2d", "nn.ConvTranspose3d", "nn.Bilinear",
    "nn.BatchNorm1d", "nn.BatchNorm2d", "nn.LayerNorm", "nn.GroupNorm", "tanh", "log_softmax", "logsigmoid", "leaky_relu",
})  # fmt: skip


def check(context: Context) -> Iterator[Finding]:
    """Follow the input of each BCE to the operation that made it."""
    for call in loss_calls(context, "binary_cross_entropy"):
        found = origin(call.input, VIEWS, items=True, strict=call.event.context.shadow)
        if found is None or operation(found) not in _UNBOUNDED:
            continue
        yield context.finding(
            RULE,
            call.event,
            f"{call.name} needs probabilities, but its input comes straight from {source_text(context, found)}: "
            "the first number outside [0, 1] stops the run",
            evidence=[Evidence("operation before the loss", operation(found))],
            related=[(found, "the input of the loss is made here")],
            fix=Fix(
                title="use the loss that takes logits",
                instruction="replace BCELoss by BCEWithLogitsLoss (binary_cross_entropy_with_logits), or apply a sigmoid first",
                expected="the loss is defined for every output",
            ),
        )
