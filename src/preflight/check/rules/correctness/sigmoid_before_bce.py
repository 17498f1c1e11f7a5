"""Sigmoid and binary cross entropy are computed one after the other.

## What it does
Reports `BCELoss` or `binary_cross_entropy` on the output of a sigmoid; and any `BCELoss` under autocast on a GPU, which PyTorch refuses.

## Why
Both steps together lose digits: from a logit of 17 on, the sigmoid is 1.0 in float32, and a wrong answer that is so sure gets no gradient at all.
`BCEWithLogitsLoss` computes both in one step that is exact for every logit, and is allowed under autocast; `BCELoss` raises there.

## Fix
Give the logits to `BCEWithLogitsLoss` or `binary_cross_entropy_with_logits`.

## When to ignore
When probabilities are wanted from the network, and logits never grow large.

## References
- PyTorch documentation of BCEWithLogitsLoss: "more numerically stable than using a plain Sigmoid followed by a BCELoss"
- PyTorch documentation, "Automatic Mixed Precision": prefer binary_cross_entropy_with_logits over binary_cross_entropy
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.heads import last_part
from preflight.check.queries.losses import LossCall, loss_calls
from preflight.check.queries.precision import region_of
from preflight.check.queries.tensors import VIEWS, operation, origin, source_text
from preflight.check.rule import Rule
from preflight.source.values import Obj
from preflight.vocabulary.finding import Edit, Finding

RULE = Rule(
    name="sigmoid-before-bce",
    code="LOS003",
    severity="info",
    confidence="certain",
    layer="D",
    tags=("loss", "numerics"),
)

BAD = (
    """
import torch.nn as nn
model = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid())
criterion = nn.BCELoss()
for x, y in loader:
    criterion(model(x).squeeze(1), y).backward()
""",
    """
import torch
import torch.nn.functional as F
net = torch.nn.Linear(8, 1)
def objective(x, y):
    return F.binary_cross_entropy(torch.sigmoid(net(x)), y)
for x, y in loader:
    objective(x, y).backward()
""",
    """
import argparse, torch
from torch import nn
p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
args = p.parse_args()
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 1)
    def forward(self, x):
        return self.fc(x).sigmoid()
net, loss = Net().to(args.device), nn.BCELoss()
for x, y in loader:
    with torch.autocast(args.device, dtype=torch.bfloat16):
        value = loss(net(x), y)
    value.backward()
""",
)

GOOD = (
    """
import torch, torch.nn as nn
import torch.nn.functional as F
net = nn.Linear(8, 1)
for x, y in loader:
    loss = F.binary_cross_entropy_with_logits(net(x), y)
    with torch.no_grad():
        p = torch.sigmoid(net(x))
    with torch.autocast("cuda"):
        logits = net(x)
    (loss + nn.BCEWithLogitsLoss()(logits, p)).backward()
""",
    """
import torch, torch.nn as nn
import torch.nn.functional as F
a, b = nn.Linear(8, 1), nn.Linear(8, 1)
for x, y in loader:
    with torch.autocast("cuda"):
        h = a(x)
        with torch.autocast("cuda", enabled=False):
            loss = F.binary_cross_entropy((torch.sigmoid(h.float()) * torch.sigmoid(b(x))), y)
    loss.backward()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Look at the input and at the place of each binary cross entropy."""
    told: set[int] = set()
    for call in loss_calls(context, "binary_cross_entropy"):
        region = region_of(call.event.context)
        refused = region is not None and region.device == "cuda" and region.enabled is True
        found = origin(call.input, VIEWS, strict=call.event.context.shadow)
        head = last_part(found)
        name = head[0] if head is not None else operation(found)
        if name != "sigmoid" and not refused:
            continue
        source = head[1] if head is not None else found
        place = source.site.node if source is not None and source.site is not None and not refused else call.event.node
        if id(place) in told or (not refused and not call.recorded):
            continue
        told.add(id(place))
        message = (
            f"{call.name} raises under autocast on a GPU: it is not defined for float16 and bfloat16 there"
            if refused
            else f"{call.name} gets the output of a sigmoid: from a logit of 17 on, float32 rounds it to 1 and gradients are lost"
        )
        evidence = [Evidence("autocast around the loss", region.dtype or "on")] if refused and region else []
        if name == "sigmoid" and source is not None:
            evidence.append(Evidence("operation before the loss", source_text(context, source)))
            if not refused:
                evidence.append(
                    Evidence(
                        "what sigmoid(17) adds to 1 in its denominator",
                        4.1e-8,
                        arithmetic="e^-17, below 2^-24 = 6.0e-8, half the spacing of float32 above 1",
                    )
                )
        yield context.finding(
            RULE,
            call.event,
            message,
            severity="error" if refused else "info",
            evidence=evidence,
            related=[(source, "the sigmoid is here")] if source is not None and name == "sigmoid" else [],
            fix=Fix(
                title="use the loss that takes logits",
                safe=False,
                edits=edits(_edit(context, call, found)),
                instruction="remove the sigmoid and use BCEWithLogitsLoss (binary_cross_entropy_with_logits); "
                "apply the sigmoid only where probabilities are read",
                expected="the loss is exact for every logit, and allowed under autocast",
            ),
        )


def _edit(context: Context, call: LossCall, found: Obj | None) -> Edit | None:
    """Rewrite ``F.binary_cross_entropy(torch.sigmoid(x), ...)``, where both are written in one expression."""
    node = call.event.node
    if call.criterion is not None or not isinstance(node, ast.Call) or not node.args or found is None:
        return None
    inner = node.args[0]
    if found.site is None or inner is not found.site.node or not isinstance(inner, ast.Call):
        return None
    if not isinstance(node.func, ast.Attribute):
        return None
    script = call.event.script
    if isinstance(inner.func, ast.Attribute) and operation(found) == "sigmoid" and found.name == ".sigmoid":
        logits = script.segment(inner.func.value)
    elif len(inner.args) == 1 and found.name != "()":
        logits = script.segment(inner.args[0])
    else:
        return None
    others = [script.segment(a) for a in node.args[1:]]
    others += [f"{k.arg}={script.segment(k.value)}" for k in node.keywords if k.arg is not None]
    name = f"{script.segment(node.func.value)}.binary_cross_entropy_with_logits"
    return context.replace((script, node), f"{name}({', '.join([logits, *others])})")
