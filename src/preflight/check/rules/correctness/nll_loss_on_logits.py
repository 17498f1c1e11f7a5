"""NLL loss is given logits or probabilities.

## What it does
Follows the input of `nll_loss` / `NLLLoss` back and reports when no log-soft-max made it: a linear layer or a soft-max did.

## Why
The loss is the negative of the number at the target's place; nothing normalises it.
Logits can grow without bound, so the loss goes to minus infinity while the classes are never compared; with plain probabilities the loss ends at -1 and its gradient does not grow when the network is wrong.

## Fix
Use `CrossEntropyLoss` on logits, or put a log-soft-max before.

## When to ignore
When log-probabilities come from a layer that normalises them itself.

## References
- PyTorch documentation of NLLLoss: the input is expected to contain log-probabilities
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.losses import loss_calls
from preflight.check.queries.tensors import VIEWS, operation, origin, source_text
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(name="nll-loss-on-logits", code="LOS005", severity="error", confidence="certain", layer="D", tags=("loss",))

BAD = (
    """
import torch.nn as nn
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
criterion = nn.NLLLoss()
for x, y in loader:
    criterion(model(x), y).backward()
""",
    """
import torch
from torch.nn import functional as F
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(16, 4)
    def forward(self, x):
        return F.softmax(self.fc(x), dim=-1)
net = Net()
def step(x, y):
    return F.nll_loss(net(x), y)
for x, y in loader:
    step(x, y).backward()
""",
    """
import argparse
import torchvision
from torch import nn
p = argparse.ArgumentParser()
p.add_argument("--classes", type=int, default=7)
args = p.parse_args()
net = torchvision.models.resnet18()
head = nn.Linear(1000, args.classes)
nll = nn.NLLLoss(ignore_index=0)
for x, y in loader:
    nll(head(net(x)), y).backward()
""",
)

GOOD = (
    """
import torch, torch.nn as nn
net = nn.Linear(8, 4)
for x, y in loader:
    out = torch.log(torch.softmax(net(x), dim=1) + 1e-8)
    nn.functional.nll_loss(out, y).backward()
""",
    """
import torch.nn as nn
import torch.nn.functional as F
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 4)
    def forward(self, x, log=True):
        x = self.fc(x)
        return F.log_softmax(x, dim=1) if log else x
net = Net()
for x, y in loader:
    F.nll_loss(net(x), y).backward()
""",
)

_WRONG = frozenset(
    {"nn.Linear", "linear", "nn.Conv1d", "nn.Conv2d", "nn.Conv3d", "softmax", "sigmoid", "relu", "tanh", "nn.Bilinear"}
)


def check(context: Context) -> Iterator[Finding]:
    """Follow the input of each NLL loss to the operation that made it."""
    for call in loss_calls(context, "nll_loss"):
        found = origin(call.input, VIEWS, items=True, strict=call.event.context.shadow)
        name = operation(found)
        if found is None or name not in _WRONG:
            continue
        what = "probabilities" if name in ("softmax", "sigmoid") else "numbers that are not normalised"
        yield context.finding(
            RULE,
            call.event,
            f"{call.name} needs log-probabilities, but its input is {what} from {source_text(context, found)}",
            evidence=[Evidence("operation before the loss", name)],
            related=[(found, "the input of the loss is made here")],
            fix=Fix(
                title="use cross entropy on the logits",
                instruction="replace nll_loss by cross_entropy on logits, or apply log_softmax first",
                expected="the loss compares the classes",
            ),
        )
