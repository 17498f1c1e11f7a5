"""The Kullback-Leibler divergence is given probabilities where it expects their logarithms.

## What it does
Follows both arguments of `kl_div` (`KLDivLoss`) back: the input has to be log-probabilities, the target probabilities, unless `log_target=True`.

## Why
`kl_div(input, target)` computes `target * (log(target) - input)` and takes no logarithm of its input.
With probabilities as input the result is no divergence: it can be below zero, and it is smallest where the input is largest, not where the two agree.
With logarithms as target and without `log_target`, the logarithm of a negative number is NaN, which PyTorch leaves out as zero.

## Fix
Give `log_softmax` as input, and the target as probabilities, or as logarithms with `log_target=True`.

## When to ignore
Never where the input is what a soft-max gives.

## References
- PyTorch documentation of KLDivLoss: "the input should be a distribution in the log space"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.losses import LossCall, loss_calls
from preflight.check.queries.tensors import VIEWS, operation, origin, source_text
from preflight.check.rule import Rule
from preflight.source.values import Obj, plain
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="divergence-of-probabilities", code="LOS012", severity="error", confidence="certain", layer="D", tags=("loss",)
)

BAD = (
    """
import torch.nn as nn
import torch.nn.functional as F
student, teacher = nn.Linear(16, 4), nn.Linear(16, 4)
for x in loader:
    loss = F.kl_div(F.softmax(student(x), dim=-1), F.softmax(teacher(x), dim=-1).detach(), reduction="batchmean")
    loss.backward()
""",
    """
import torch
from torch import nn
class Distiller(nn.Module):
    def __init__(self, student, temperature=2.0):
        super().__init__()
        self.student, self.t = student, temperature
        self.kl = nn.KLDivLoss(reduction="batchmean")
    def forward(self, x, wanted):
        return self.kl((self.student(x) / self.t).softmax(1), wanted)
d = Distiller(nn.Linear(8, 3))
for x, wanted in pairs:
    d(x, wanted).backward()
""",
    """
import argparse
import torch
from torch import nn
p = argparse.ArgumentParser()
p.add_argument("--reduction", default="batchmean")
args = p.parse_args()
model, frozen = nn.Linear(4, 2), nn.Linear(4, 2)
for x in batches:
    with torch.no_grad():
        told = torch.log_softmax(frozen(x), -1)
    nn.functional.kl_div(torch.log_softmax(model(x), -1), told, reduction=args.reduction).backward()
""",
)

GOOD = (
    """
import torch.nn as nn
import torch.nn.functional as F
student, teacher = nn.Linear(16, 4), nn.Linear(16, 4)
for x in loader:
    loss = F.kl_div(F.log_softmax(student(x), -1), F.softmax(teacher(x), -1).detach(), reduction="batchmean")
    loss.backward()
""",
    """
import torch
from torch import nn
model, frozen = nn.Linear(4, 2), nn.Linear(4, 2)
kl = nn.KLDivLoss(reduction="batchmean", log_target=True)
for x in batches:
    kl(model(x).log_softmax(-1), frozen(x).log_softmax(-1).detach()).backward()
""",
    """
import torch.nn as nn
import torch.nn.functional as F
model = nn.Linear(4, 2)
for x, wanted in batches:
    p = F.softmax(model(x), -1)
    F.kl_div((p + 1e-9).log(), wanted, reduction="batchmean").backward()
""",
)

_PROBABILITIES = ("softmax", "sigmoid")
_LOGARITHMS = ("log_softmax", "logsigmoid")


def check(context: Context) -> Iterator[Finding]:
    """Look at what made the arguments of each divergence."""
    for call in loss_calls(context, "kl_div"):
        strict = call.event.context.shadow
        given = origin(call.input, VIEWS, strict=strict)
        target = origin(call.target, VIEWS | {"detach"}, strict=strict)
        if given is not None and operation(given) in _PROBABILITIES:
            yield _finding(context, call, given, "input", "log-probabilities", "use log_softmax for the input")
        elif (
            target is not None and operation(target) in _LOGARITHMS and plain(call.option("log_target"), False) is False
        ):
            yield _finding(context, call, target, "target", "probabilities", "use softmax, or give log_target=True")


def _finding(context: Context, call: LossCall, made: Obj, which: str, wanted: str, instruction: str) -> Finding:
    return context.finding(
        RULE,
        call.event,
        f"{call.name} expects {wanted} as its {which} and is given what {operation(made)} makes: it is no divergence",
        evidence=[Evidence(which, source_text(context, made)), Evidence("expected", wanted)],
        fix=Fix(
            title=f"give {wanted} as the {which}",
            safe=False,
            instruction=instruction,
            expected="the loss is zero where both distributions agree, and above it elsewhere",
        ),
        related=[(made, f"the {which} is made here")],
    )
