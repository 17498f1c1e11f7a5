"""Option of type int for a number with a fraction.

## What it does
Looks for `add_argument(..., type=int)` whose default has a fraction, or whose value becomes a learning rate, weight decay or dropout probability.

## Why
`int("0.001")` raises, so the option can only ever be given as a whole number: `--lr 0.001` ends with a usage error and `--lr 1` trains with a rate that is a thousand times too large.
The default itself is not converted, which hides the mistake until somebody uses the option.

## Fix
Use `type=float`.

## When to ignore
When the option really counts something and its default was written as a fraction by accident: then change the default.

## References
- Python documentation, argparse, "type"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.options import declared, from_option
from preflight.check.rule import Rule
from preflight.source.trace import parents_of
from preflight.source.values import Known, Obj, Unknown, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="integer-option-for-fraction",
    code="CLI003",
    severity="warning",
    confidence="certain",
    layer="S",
    tags=("command line",),
)

BAD = (
    """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=int, default=1e-3)
args = parser.parse_args()
""",
    """
import argparse, torch
from torch import nn
def options():
    p = argparse.ArgumentParser()
    p.add_argument("--rate", type=int, default=1)
    return p.parse_args()
opt = options()
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=opt.rate)
""",
    """
from argparse import ArgumentParser as AP
import torch.nn as nn
class Net(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.drop = nn.Dropout(p)
parser = AP()
common = dict(type=int)
parser.add_argument("--dropout", default=0, **common)
net = Net(parser.parse_args().dropout)
""",
)

GOOD = (
    """
import argparse, torch
from torch import nn
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=1e-3)
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--batch-size", type=int, default=64)
args = parser.parse_args()
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * args.batch_size / 256)
""",
    """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=1e5)
args = parser.parse_args()
""",
)

_RATES = {"lr": "learning rate", "weight_decay": "weight decay", "eps": "eps", "momentum": "momentum"}


def check(context: Context) -> Iterator[Finding]:
    """Find whole-number options with a fractional default or use."""
    uses = _uses(context)
    for option in declared(context):
        if option.type_name != "builtins.int":
            continue
        default = context.value(option.default)
        fraction = isinstance(default, float) and default != int(default) if _finite(default) else False
        use = uses.get(option.dest)
        if not fraction and use is None:
            continue
        keyword = option.keyword("type")
        edit = context.replace((option.event.script, keyword.value), "float") if keyword is not None else None
        reason = f"its default is {default!r}" if fraction else f"it becomes the {use}"
        yield context.finding(
            RULE,
            option.event,
            f"{option.label} has type int but {reason}: a number with a fraction cannot be given on the command line",
            confidence="certain" if fraction else "likely",
            evidence=[
                Evidence("default", default if isinstance(default, (int, float)) else None),
                Evidence("conversion", "int", arithmetic='int("0.001") raises ValueError'),
            ],
            fix=Fix(
                title=f"use type=float for {option.label}",
                safe=True,
                edits=edits(edit) if edit is not None else (),
                instruction="change type=int to type=float",
                expected=f"{option.label} 0.001 is accepted",
            ),
        )


def _finite(value: object) -> bool:
    return isinstance(value, float) and value == value and value not in (float("inf"), float("-inf"))


def _uses(context: Context) -> dict[str, str]:
    """Options whose own value, unchanged, is a rate: by option, what it becomes."""
    found: dict[str, str] = {}
    for optimizer in context.reading.made("optimizer"):
        for keyword, title in _RATES.items():
            value = optimizer.kwargs.get(keyword)
            names = from_option(value) if value is not None and _unchanged(value) else set()
            if len(names) == 1:
                found[names.pop()] = title
    for event in context.trace.calls("torch.nn.Dropout", "torch.nn.functional.dropout"):
        value = event.argument(0 if event.name.endswith("Dropout") else 1, "p")
        names = from_option(value) if value is not None and _unchanged(value) else set()
        if len(names) == 1:
            found[names.pop()] = "dropout probability"
    return found


def _unchanged(value: object) -> bool:
    """Whether a value is the option's own: its only parents are the option and the declared default."""
    base = settle(value)  # type: ignore[arg-type]
    return isinstance(base, (Known, Unknown)) and any(
        isinstance(p, Obj) and p.name == "argparse.option" for p in parents_of(base)
    )
