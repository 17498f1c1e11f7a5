"""Soft-max output is given to cross entropy.

## What it does
Follows the first argument of `cross_entropy` / `CrossEntropyLoss` back through the model's own `forward` and reports when it already went through a soft-max or a log-soft-max.

## Why
Cross entropy applies log-soft-max itself.
Soft-max outputs lie in [0, 1], so the second soft-max can never give a class more than e / (e + C - 1): with 10 classes the loss cannot fall below 1.46 and gradients are small from the start.
A log-soft-max before it changes nothing in the result, but costs one more pass over the logits and one more copy of them in memory.

## Fix
Return the logits, or use `nll_loss` with log-soft-max.

## When to ignore
When the activation is there for another consumer and the small loss range is wanted.

## References
- PyTorch documentation of CrossEntropyLoss: the input is expected to contain unnormalised logits
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.heads import last_part
from preflight.check.queries.losses import loss_calls
from preflight.check.queries.shapes import width
from preflight.check.queries.tensors import VIEWS, operation, origin, source_text
from preflight.check.rule import Rule
from preflight.source.values import plain
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="softmax-before-cross-entropy",
    code="LOS001",
    severity="error",
    confidence="certain",
    layer="D",
    tags=("loss",),
)

BAD = (
    """
import torch.nn as nn
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10), nn.Softmax(dim=1))
criterion = nn.CrossEntropyLoss()
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
""",
    """
import torch
from torch.nn import functional as F
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(16, 4)
    def forward(self, x):
        return self.fc(x).softmax(-1)
def objective(net, x, y):
    return F.cross_entropy(net(x).view(-1, 4), y)
net = Net()
for x, y in loader:
    objective(net, x, y).backward()
""",
    """
import argparse, torch
import torch.nn as nn
parser = argparse.ArgumentParser()
parser.add_argument("--loss", default="ce")
args = parser.parse_args()
class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 3)
        self.act = nn.LogSoftmax(dim=-1)
    def forward(self, h):
        return self.act(self.out(h))
head = Head()
criterion = nn.CrossEntropyLoss() if args.loss == "ce" else nn.NLLLoss()
for h, y in loader:
    criterion(head(h), y).backward()
""",
    """
import torch.nn as nn
from collections import OrderedDict
class Head(nn.Sequential):
    def __init__(self, width, classes):
        super().__init__(nn.Linear(width, classes), nn.Softmax(dim=1))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(OrderedDict([("first", nn.Linear(16, 8)), ("act", nn.ReLU())]))
        self.head = Head(8, 10)
    def forward(self, x):
        return self.head(self.body(x))
net = nn.DataParallel(Net())
for x, y in loader:
    nn.functional.cross_entropy(net(x), y).backward()
""",
    """
import torch
from torch import nn
from torchvision import models
net = models.resnet50(weights="DEFAULT")
net.fc = nn.Sequential(nn.Linear(2048, 256), nn.ReLU(), nn.Sequential(nn.Linear(256, 10), nn.Softmax(dim=1)))
criterion = nn.CrossEntropyLoss()
for x, y in loader:
    criterion(net(x), y).backward()
""",
)

GOOD = (
    """
import torch
from torch import nn
from torchvision import models
class Gate(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(8, 8), nn.Softmax(dim=1))
        self.out = nn.Linear(8, 3)
net, gated = models.resnet50(), Gate()
net.fc = nn.Sequential(nn.Softmax(dim=1), nn.Linear(2048, 10))
for x, h, y in loader:
    loss = nn.functional.cross_entropy(net(x), y) + nn.functional.cross_entropy(gated(h), y)
    loss.backward()
""",
    """
import torch.nn as nn
import torch.nn.functional as F
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 4)
    def forward(self, x):
        logits = self.fc(x)
        if self.training:
            return logits
        return F.softmax(logits, dim=1)
net = Net()
for x, y in loader:
    F.cross_entropy(net(x), y).backward()
""",
    """
import torch, torch.nn as nn
teacher, student = nn.Linear(8, 3), nn.Linear(8, 3)
for x in loader:
    with torch.no_grad():
        target = teacher(x).softmax(dim=-1)
    nn.functional.cross_entropy(student(x), target).backward()
""",
    """
import torch, torch.nn as nn
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.out = nn.Linear(8, 8), nn.Linear(8, 3)
    def forward(self, x):
        weights = (self.q(x) @ x.transpose(1, 2)).softmax(-1)
        return self.out((weights @ x).mean(1))
net = Attention()
for x, y in loader:
    nn.CrossEntropyLoss()(net(x), y).backward()
""",
)

_NAMES = ("softmax", "log_softmax")


def check(context: Context) -> Iterator[Finding]:
    """Follow the input of each cross entropy to the operation that made it."""
    for call in loss_calls(context, "cross_entropy"):
        found = origin(call.input, VIEWS, items=True, strict=call.event.context.shadow)
        name = operation(found)
        classes = width(found) if found is not None and name in _NAMES else None
        head = last_part(found)
        if head is not None:
            name, found = head[0], head[1]
            outputs = plain(head[2].argument(1, "out_features")) if head[2] is not None else None
            classes = outputs if isinstance(outputs, int) else None
        if found is None or name not in _NAMES:
            continue
        evidence = [Evidence("operation before the loss", source_text(context, found))]
        if name == "softmax" and classes is not None and classes > 1:
            floor = math.log((math.e + classes - 1) / math.e)
            arithmetic = f"ln((e + {classes} - 1) / e) = {floor:.2f}"
            evidence.append(Evidence("lowest loss that can be reached", round(floor, 2), arithmetic=arithmetic))
        if name == "softmax":
            message = f"{call.name} applies log-soft-max itself, but its input already went through a soft-max"
        else:
            message = (
                f"{call.name} applies log-soft-max itself, so the one before it is computed and stored for nothing"
            )
        yield context.finding(
            RULE,
            call.event,
            message,
            evidence=evidence,
            severity="error" if name == "softmax" else "warning",
            related=[(found, f"the {name} is here")],
            fix=Fix(
                title="give the logits to the loss",
                instruction=f"remove the {name}, or keep a log_softmax and use nll_loss",
                expected="the loss can reach zero" if name == "softmax" else "one pass over the logits less",
            ),
        )
