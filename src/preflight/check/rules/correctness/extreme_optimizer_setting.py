"""A setting of the optimizer is far outside its range.

## What it does
Checks momentum, betas, eps and weight decay of an optimizer against the range that its formula allows and that published recipes use.

## Why
Some values are refused (a beta of 1 or more divides by 1 - beta = 0), some never converge (a momentum of 1 never forgets), and some switch the method off: with an eps of 1, Adam is SGD with a small step.

## Fix
Published recipes use momentum 0.8 to 0.99, beta1 0 to 0.95, beta2 0.9 to 0.9999, eps 1e-15 to 1e-3, weight decay 0 to 0.5, and a rate times weight decay below 0.001.

## When to ignore
When the value is the subject of the experiment.

## References
- PyTorch documentation, `torch.optim`
- Kingma and Ba, "Adam" (2015); Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (2019)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.values import Obj, options_of
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="extreme-optimizer-setting",
    code="OPT008",
    severity="info",
    confidence="likely",
    needs=("optimizer",),
    layer="C",
    tags=("optimizer",),
)

BAD = (
    """
import torch
from torch import nn
optimizer = torch.optim.Adam(nn.Linear(2, 2).parameters(), betas=(0.9, 1.0))
""",
    """
from torch.optim import SGD as Opt
import torch.nn as nn
def make(model, inertia):
    return Opt(model.parameters(), 0.1, inertia)
make(nn.Linear(2, 2), 1.5)
""",
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--eps", type=float, default=1.0)
args = parser.parse_args()
optimizer = torch.optim.AdamW(torch.nn.Linear(2, 2).parameters(), lr=1e-3, eps=args.eps)
""",
    """
import torch
net = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=0.5)
""",
)

GOOD = (
    """
import torch
from torch import nn
net = nn.Linear(2, 2)
a = torch.optim.Adam(net.parameters(), betas=(0.0, 0.99), eps=1e-15)
b = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.99, weight_decay=5e-4)
c = torch.optim.RMSprop(net.parameters(), alpha=0.9, eps=1.0)
""",
    """
import torch
from torch import nn
net = nn.Linear(2, 2)
a = torch.optim.AdamW(net.parameters(), betas=(0.9, 0.95), weight_decay=0.3)
b = torch.optim.Rprop(net.parameters())
c = torch.optim.Adadelta(net.parameters(), lr=1.0, eps=1e-6)
""",
    """
import torch
from torch import nn
net = nn.Linear(2, 2)
optimizer = torch.optim.AdamW(net.parameters(), lr=1.0, betas=(0.9, 0.98), weight_decay=0.01)
noam = torch.optim.lr_scheduler.LambdaLR(
    optimizer, lambda step: 512**-0.5 * min((step + 1) ** -0.5, (step + 1) * 4000**-1.5)
)
""",
)

_ADAMS = ("Adam", "AdamW", "NAdam", "RAdam", "Adamax", "FusedAdam", "DeepSpeedCPUAdam", "Adam8bit", "AdamW8bit")


def check(context: Context) -> Iterator[Finding]:
    """Check the numbers of each optimizer."""
    for optimizer in context.reading.made("optimizer"):
        if optimizer.kind != "call" or optimizer.open_args:
            continue
        found = _wrong(context, optimizer)
        if found is not None:
            severity, name, value, text = found
            yield context.finding(
                RULE,
                optimizer,
                text,
                severity=severity,  # type: ignore[arg-type]
                evidence=[Evidence(name, value)],
                fix=Fix(
                    title=f"give {name} a value in its usual range",
                    safe=False,
                    instruction=f"change {name}, or leave it at its default",
                    expected="the optimizer works as published",
                ),
            )


def _wrong(context: Context, optimizer: Obj) -> tuple[str, str, Any, str] | None:
    kind = optimizer.name.rpartition(".")[2]
    adam = kind in _ADAMS
    if adam:
        betas = context.value(
            optimizer.argument(2, "betas")
            if optimizer.name.startswith("torch.optim.")
            else optimizer.kwargs.get("betas")
        )
        found = _betas(betas)
        if found is not None:
            return found
    eps = context.value(
        optimizer.argument(3, "eps")
        if optimizer.name.startswith("torch.optim.") and adam
        else optimizer.kwargs.get("eps")
    )
    if adam and _is_number(eps) and eps >= 0.1:  # type: ignore[operator]
        return (
            "warning",
            "eps",
            eps,
            f"eps of {kind} is {eps:g}: it outweighs the second moments, so the method is SGD with a small step",
        )
    momentum = context.value(optimizer.argument(2, "momentum") if kind == "SGD" else optimizer.kwargs.get("momentum"))
    if _is_number(momentum) and momentum >= 1:  # type: ignore[operator]
        return (
            "error",
            "momentum",
            momentum,
            f"momentum is {momentum:g}: old gradients never fade, and the weights grow without bound",
        )
    decay = context.value(optimizer.kwargs.get("weight_decay"))
    if _is_number(decay) and decay >= 1 and kind in ("SGD", "Adam", "RMSprop", "Adagrad"):  # type: ignore[operator]
        return (
            "warning",
            "weight_decay",
            decay,
            f"weight_decay is {decay:g}: added to every gradient, it outweighs the loss",
        )
    rate = context.value(optimizer.argument(1, "lr") if optimizer.name.startswith("torch.optim.") else None)
    share = _share(rate, decay) if kind in ("SGD", "AdamW") and not _scaled(context, optimizer) else 0.0
    if share >= _FADING:
        return (
            "warning",
            "lr x weight_decay",
            f"{rate:g} x {decay:g} = {share:g}",
            f"weight_decay is {decay:g} at a rate of {rate:g}: every step takes {100 * share:.3g} % of each weight away",
        )
    return None


_FADING = 0.01
"""A share of the weights that no published recipe takes away in a step: they stay below a tenth of it."""


def _scaled(context: Context, optimizer: Obj) -> bool:
    """Whether a schedule makes the rate itself what it is, so that the one given is but a factor: Noam's, or one cycle."""
    schedules = ("LambdaLR", "MultiplicativeLR", "OneCycleLR", "CyclicLR")
    return any(
        event.name.rpartition(".")[2] in schedules
        and any(o is optimizer for o in options_of(event.argument(0, "optimizer")))
        for event in context.trace.calls_under("torch.optim.lr_scheduler.")
    )


def _share(rate: object, decay: object) -> float:
    """The share of each weight that a step takes away; 0 where a number is not known."""
    if isinstance(rate, (int, float)) and isinstance(decay, (int, float)):
        return float(rate * decay)
    return 0.0


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _betas(betas: object) -> tuple[str, str, Any, str] | None:
    if betas is None:
        return None
    if not isinstance(betas, (tuple, list)):
        if _is_number(betas):
            return "error", "betas", betas, f"betas is the number {betas}: two are needed"
        return None
    if len(betas) == 2 and all(map(_is_number, betas)):
        bad = [b for b in betas if not 0 <= b < 1]
        if bad:
            return (
                "error",
                "betas",
                str(tuple(betas)),
                f"a beta of {bad[0]:g} is refused: it has to be at least 0 and below 1",
            )
        if betas[1] < 0.5:
            text = f"beta2 is {betas[1]:g}: the second moments follow single batches, and the step size jumps"
            return "warning", "betas", str(tuple(betas)), text
    return None
