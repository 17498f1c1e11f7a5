"""The old names of mixed precision.

## What it does
Finds `torch.cuda.amp.autocast` and `torch.cuda.amp.GradScaler`.

## Why
Both are deprecated since PyTorch 2.4 and print a `FutureWarning`; `torch.amp` has them for every device.

## Fix
`torch.amp.autocast("cuda", ...)` and `torch.amp.GradScaler("cuda", ...)`.
`torch.amp.GradScaler` exists since PyTorch 2.3.

## When to ignore
When the script has to run on older versions of PyTorch.

## References
- PyTorch documentation, "Automatic Mixed Precision package"
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.vocabulary.finding import Edit, Finding

RULE = Rule(
    name="deprecated-cuda-amp",
    code="AMP008",
    severity="info",
    confidence="certain",
    layer="S",
    persona="pedantic",
    tags=("precision", "deprecated"),
)

BAD = (
    """
import torch
scaler = torch.cuda.amp.GradScaler()
""",
    """
from torch.cuda.amp import autocast as cast
def run(model, x):
    with cast():
        return model(x)
""",
    """
import argparse
import torch.cuda.amp as amp
parser = argparse.ArgumentParser()
parser.add_argument("--amp", action="store_true")
args = parser.parse_args()
scaler = amp.GradScaler(enabled=args.amp)
""",
)

GOOD = (
    """
import torch
scaler = torch.amp.GradScaler("cuda")
with torch.autocast("cuda"):
    pass
""",
    """
from torch.amp import GradScaler, autocast
scaler = GradScaler("cuda")
with autocast("cuda"):
    pass
""",
)

_OLD = ("torch.cuda.amp.GradScaler", "torch.cuda.amp.autocast", "torch.cpu.amp.autocast", "torch.cpu.amp.GradScaler")


def check(context: Context) -> Iterator[Finding]:
    """Find calls by the old names."""
    for event in context.trace.calls(*_OLD, *("@" + name for name in _OLD)):
        device, _, kind = event.name.lstrip("@").partition(".amp.")
        device = device.rpartition(".")[2]
        new = f'torch.amp.{kind}("{device}")'
        edit = _edit(context, event, f"torch.amp.{kind}", device)
        yield context.finding(
            RULE,
            event,
            f"{event.name.lstrip('@')} is deprecated since PyTorch 2.4",
            evidence=[Evidence("name", event.name.lstrip("@"))],
            fix=Fix(
                title=f"use {new}",
                safe=edit is not None and kind == "autocast",
                edits=edits(edit) if edit is not None else (),
                instruction=f"replace it by {new}, with the same further arguments by keyword",
                expected="no FutureWarning; the same computation",
            ),
        )


def _edit(context: Context, event: Event, name: str, device: str) -> Edit | None:
    """Only where the call is written out from ``torch`` on, and all its arguments are keywords."""
    node = event.node
    if not isinstance(node, ast.Call) or node.args or not event.script.segment(node.func).startswith("torch."):
        return None
    keywords = "".join(f", {event.script.segment(k)}" for k in node.keywords)
    return context.replace(event, f'{name}("{device}"{keywords})')
