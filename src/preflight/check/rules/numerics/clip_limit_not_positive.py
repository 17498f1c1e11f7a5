"""Gradients are clipped to nothing.

## What it does
Looks for `clip_grad_norm_` and `clip_grad_value_` whose limit is a number of 0 or less.

## Why
With a limit of 0 every gradient is multiplied by 0, and nothing is trained; a negative limit turns the gradients round.
That 0 stands for "no clipping" is a custom of some programs; PyTorch does not know it.

## Fix
Give a positive limit, 1.0 is usual, or do not clip.

## When to ignore
Never.

## References
- PyTorch, `torch.nn.utils.clip_grad_norm_`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.values import Known, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="clip-limit-not-positive",
    code="NUM019",
    severity="error",
    confidence="certain",
    layer="D",
    tags=("gradients",),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0)
    optimizer.step()
""",
    """
from torch.nn.utils import clip_grad_value_
LIMIT = -1.0
def update(net, loss):
    loss.backward()
    clip_grad_value_(net.parameters(), clip_value=LIMIT)
update(net, loss)
""",
    """
import torch
net = torch.nn.Linear(4, 4)
net(torch.randn(2, 4)).sum().backward()
torch.nn.utils.clip_grad_norm_(net.parameters(), max_norm=0.0)
""",
)

GOOD = (
    """
import argparse
import torch
parser = argparse.ArgumentParser()
parser.add_argument("--clip", type=float, default=0.0)
args = parser.parse_args()
net = torch.nn.Linear(4, 4)
net(torch.randn(2, 4)).sum().backward()
torch.nn.utils.clip_grad_norm_(net.parameters(), args.clip)
""",
    """
import torch
net = torch.nn.Linear(4, 4)
net(torch.randn(2, 4)).sum().backward()
torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
CLIP = 0.0
if CLIP > 0:
    torch.nn.utils.clip_grad_norm_(net.parameters(), CLIP)
""",
)

_LIMITS = {
    "torch.nn.utils.clip_grad_norm_": "max_norm", "torch.nn.utils.clip_grad_norm": "max_norm",
    "torch.nn.utils.clip_grad_value_": "clip_value",
}  # fmt: skip


def check(context: Context) -> Iterator[Finding]:
    """Look at the limit of each clipping."""
    for event in context.trace.calls(*_LIMITS):
        given = event.argument(1, _LIMITS[event.name])
        limit = settle(given) if given is not None else None
        if not isinstance(limit, Known) or limit.soft or isinstance(limit.value, bool) or event.context.shadow:
            continue
        if not isinstance(limit.value, (int, float)) or limit.value > 0:
            continue
        yield context.finding(
            RULE,
            event,
            f"gradients are clipped to {limit.value:g}: "
            + ("all of them become 0" if limit.value == 0 else "they are turned round"),
            evidence=[Evidence(_LIMITS[event.name], f"{limit.value:g}")],
            fix=Fix(
                title="give a positive limit",
                safe=False,
                instruction="clip to 1.0, or leave the call out",
                expected="gradients below the limit stay as they are",
            ),
        )
