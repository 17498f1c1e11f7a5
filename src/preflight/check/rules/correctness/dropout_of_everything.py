"""Dropout takes away everything that passes through it.

## What it does
Looks for dropout layers and calls of dropout whose probability is 1 or more, and below 0.

## Why
`p` is the share that is set to zero, not the share that is kept: with `p=1` all outputs and all gradients before the layer are zero in training.
Outside of 0 to 1 PyTorch raises `ValueError`.

## Fix
Give the share to drop: 0.1 keeps nine tenths.

## When to ignore
Never, where the layer is used in training.

## References
- PyTorch, `torch.nn.Dropout`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import Known, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="dropout-of-everything",
    code="MOD017",
    severity="error",
    confidence="certain",
    layer="D",
    tags=("dropout",),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(10, 10), nn.ReLU(), nn.Dropout(1.0), nn.Linear(10, 2))
""",
    """
import torch.nn as nn
import torch.nn.functional as F
KEEP = 1
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
    def forward(self, x):
        return F.dropout(self.fc(x), KEEP, training=self.training)
Net()(batch)
""",
    """
import torch
layer = torch.nn.Dropout2d(p=1.5)
""",
)

GOOD = (
    """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(10, 10), nn.Dropout(0.9), nn.Dropout(), nn.Dropout(p=0), nn.Linear(10, 2))
""",
    """
import argparse
import torch
parser = argparse.ArgumentParser()
parser.add_argument("--dropout", type=float, default=0.1)
args = parser.parse_args()
layer = torch.nn.Dropout(args.dropout)
""",
    """
import torch
def condition_dropout(labels, p):
    return torch.nn.functional.dropout(labels, p)
condition_dropout(labels, float(input()))
""",
)

_LAYERS = tuple(
    f"torch.nn.{name}"
    for name in ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout")
)
_CALLS = tuple(
    f"torch.nn.functional.{name}"
    for name in ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
)


def check(context: Context) -> Iterator[Finding]:
    """Find shares that leave nothing, or that there are none of."""
    for event in context.trace.calls(*_LAYERS, *_CALLS):
        share = _share(event)
        if share is None or 0 <= share < 1:
            continue
        said = "sets everything to zero in training" if share == 1 else "is no share: PyTorch raises ValueError"
        yield context.finding(
            RULE,
            event,
            f"dropout with p = {share:g} {said}",
            evidence=[Evidence("p", f"{share:g}", arithmetic=f"kept: {max(0.0, 1 - share):g}")],
            fix=Fix(
                title="give the share to drop",
                safe=False,
                instruction="p is the share that is dropped: 0.1 keeps nine tenths",
                expected="what passes the layer reaches the next one",
            ),
        )


def _share(event: Event) -> float | None:
    """The probability, where it is a number of the script itself."""
    given = event.argument(0 if event.name in _LAYERS else 1, "p")
    base = settle(given) if given is not None else None
    if not isinstance(base, Known) or base.soft or isinstance(base.value, bool):
        return None
    return float(base.value) if isinstance(base.value, (int, float)) else None
