"""The learning rate is text, not a number.

## What it does
Looks for text where an optimizer or schedule wants a number: `lr="0.001"`, or an option with `type=str`.

## Why
`torch.optim.Adam(params, lr="0.001")` raises `TypeError: '<=' not supported between instances of 'float' and 'str'`.
The script ends after the data and the model have been loaded.

## Fix
Write the number without quotes, or declare the option with `type=float`.

## When to ignore
Never.

## References
- PyTorch, `torch.optim`
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from preflight.check.context import Context, Edit, Evidence, Fix, edits
from preflight.check.queries.learning_rates import short
from preflight.check.rule import Rule
from preflight.source.values import Known, Obj, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="learning-rate-is-text",
    code="LR004",
    severity="error",
    confidence="certain",
    needs=("optimizer",),
    layer="C",
    tags=("optimizer",),
)
_NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)\s*$|^\s*[-+]?\d*\.\d*[eE][-+]?\d+\s*$"
_NAMES = ("lr", "weight_decay", "momentum", "eps", "gamma", "max_lr", "step_size", "T_max", "num_training_steps")

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.Adam(model.parameters(), lr="0.001")
""",
    """
import argparse
from torch import nn
from torch.optim import SGD as Opt
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=str, default="0.1")
args = parser.parse_args()
def make(net):
    return Opt(net.parameters(), args.lr)
make(nn.Linear(10, 2))
""",
    """
import torch
from dataclasses import dataclass
@dataclass
class Config:
    decay: str = "0.01"
class Job:
    def __init__(self, config):
        self.net = torch.nn.Linear(10, 2)
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=1e-3, weight_decay=config.decay)
Job(Config())
""",
)

GOOD = (
    """
import argparse, torch
from torch import nn
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=str, default="0.1")
args = parser.parse_args()
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=float(args.lr))
""",
    """
import argparse, torch
from torch import nn
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default="0.1")
args = parser.parse_args()
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find text in the place of numbers."""
    for role in ("optimizer", "scheduler"):
        for made in context.reading.made(role):
            if made.cls is not None or not made.name.startswith("torch.optim."):
                continue
            for name in _NAMES:
                given = made.argument(1 if name == "lr" and role == "optimizer" else -1, name)
                worth = settle(given) if given is not None else None
                if isinstance(worth, Known) and isinstance(worth.value, str) and re.match(_NUMBER, worth.value):
                    yield _finding(context, made, name, worth)


def _finding(context: Context, made: Obj, name: str, worth: Known) -> Finding:
    how = f" ({worth.how})" if worth.how not in (None, "literal") else ""
    edit: Edit | None = None
    if not how and worth.site is not None and worth.site.script.segment(worth.site.node)[:1] in "'\"":
        edit = context.replace(worth, str(worth.value).strip())
    return context.finding(
        RULE,
        context.reading.event_of(made) or made,
        f'{name} of {short(made)} is the text "{worth.value}"{how}: comparing it with a number raises TypeError',
        evidence=[Evidence(name, str(worth.value), arithmetic="type: str")],
        fix=Fix(
            title=f"make {name} a number",
            safe=True,
            edits=edits(edit) if edit is not None else (),
            instruction="write it without quotes, or declare the option with type=float",
            expected="the optimizer is made",
        ),
    )
