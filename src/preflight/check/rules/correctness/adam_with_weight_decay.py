"""Adam with weight decay, where AdamW may be meant.

## What it does
Finds `torch.optim.Adam` (or NAdam, RAdam) with a weight decay above 0 and without `decoupled_weight_decay=True`.

## Why
Adam adds the decay to the gradient and then divides by the second moments: weights with large gradients are decayed less, so the number does not mean what recipes for AdamW mean by it.

## Fix
Use `torch.optim.AdamW`; a decay of 1e-5 to 1e-4 for Adam corresponds to 1e-2 to 1e-1 for AdamW.

## When to ignore
When a published recipe with Adam is reproduced.

## References
- Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (2019)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.rule import Rule
from preflight.source.values import Known, Obj, settle
from preflight.vocabulary.finding import Edit, Finding

RULE = Rule(
    name="adam-with-weight-decay",
    code="OPT010",
    severity="info",
    confidence="certain",
    needs=("optimizer",),
    layer="S",
    persona="pedantic",
    tags=("optimizer",),
)

BAD = (
    """
import torch
optimizer = torch.optim.Adam(torch.nn.Linear(2, 2).parameters(), lr=1e-3, weight_decay=1e-4)
""",
    """
from torch.optim import Adam as Opt
import torch.nn as nn
def make(model, **options):
    return Opt(model.parameters(), **options)
make(nn.Linear(2, 2), weight_decay=0.01)
""",
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--wd", type=float, default=5e-4)
args = parser.parse_args()
optimizer = torch.optim.NAdam(torch.nn.Linear(2, 2).parameters(), weight_decay=args.wd)
""",
)

GOOD = (
    """
import torch
net = torch.nn.Linear(2, 2)
a = torch.optim.Adam(net.parameters(), weight_decay=0)
b = torch.optim.AdamW(net.parameters(), weight_decay=0.1)
""",
    """
import torch
net = torch.nn.Linear(2, 2)
a = torch.optim.Adam(net.parameters(), lr=1e-3, weight_decay=0.01, decoupled_weight_decay=True)
b = torch.optim.SGD(net.parameters(), lr=0.1, weight_decay=5e-4)
""",
)

_COUPLED = ("torch.optim.Adam", "torch.optim.NAdam", "torch.optim.RAdam")


def check(context: Context) -> Iterator[Finding]:
    """Look at the weight decay of each Adam."""
    for optimizer in context.reading.made("optimizer"):
        if optimizer.kind != "call" or optimizer.name not in _COUPLED:
            continue
        decay = context.value(optimizer.argument(4, "weight_decay"))
        decoupled = optimizer.kwargs.get("decoupled_weight_decay")
        if not isinstance(decay, (int, float)) or decay <= 0 or (decoupled is not None and _not_false(decoupled)):
            continue
        kind = optimizer.name.rpartition(".")[2]
        edit = _edit(context, optimizer) if kind == "Adam" else None
        yield context.finding(
            RULE,
            optimizer,
            f"{kind} adds weight_decay {decay:g} to the gradient, where it is scaled with it; AdamW decays the weights themselves",
            evidence=[Evidence("weight_decay", float(decay))],
            fix=Fix(
                title="use AdamW",
                safe=False,
                edits=edits(edit) if edit is not None else (),
                instruction="use torch.optim.AdamW and choose the decay anew (1e-2 to 1e-1)",
                expected="all weights are decayed alike",
            ),
        )


def _not_false(value: object) -> bool:
    base = settle(value)  # type: ignore[arg-type]
    return not (isinstance(base, Known) and base.value is False)


def _edit(context: Context, optimizer: Obj) -> Edit | None:
    event = context.reading.event_of(optimizer)
    node = event.node if event is not None else None
    if (
        event is None
        or not isinstance(node, ast.Call)
        or not isinstance(node.func, ast.Attribute)
        or node.func.attr != "Adam"
    ):
        return None
    return context.replace((event.script, node.func), f"{event.script.segment(node.func.value)}.AdamW")
