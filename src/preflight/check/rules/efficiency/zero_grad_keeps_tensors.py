"""Gradients are filled with zeros instead of being freed.

## What it does
Looks for `zero_grad(set_to_none=False)`.

## Why
Filling writes all gradients once per step, and the next backward reads and adds to them instead of writing them: for 1 billion parameters in fp32 that is 4 GB written and 4 GB read more per step.
Freed gradients also lower the peak, because the forward pass can use their memory.

## Fix
Leave the argument out: since PyTorch 2.0 the default is to free.

## When to ignore
When parameters without a gradient in some steps must still get weight decay or momentum: an optimizer skips parameters whose gradient is None.

## References
- PyTorch documentation, `torch.optim.Optimizer.zero_grad`
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.rule import Rule
from preflight.source.values import Known, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="zero-grad-keeps-tensors",
    code="EFF021",
    severity="info",
    confidence="certain",
    layer="S",
    tags=("optimizer",),
)

_LOOP = """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""
BAD = (
    _LOOP + "    optimizer.zero_grad(set_to_none=False)\n",
    _LOOP + "    model.zero_grad(False)\n",
    "def clear(o, free):\n    o.zero_grad(set_to_none=free)\n" + _LOOP + "    clear(optimizer, False)\n",
)
GOOD = (
    _LOOP + "    optimizer.zero_grad()\n    model.zero_grad(set_to_none=True)\n",
    "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--free', action='store_true', default=True)\n"
    "args = parser.parse_args()\n" + _LOOP + "    optimizer.zero_grad(args.free)\n",
)


def check(context: Context) -> Iterator[Finding]:
    """Find gradients that are filled with zeros."""
    for event in context.trace.calls(".zero_grad"):
        given = event.argument(0, "set_to_none")
        value = settle(given) if given is not None else None
        if not isinstance(value, Known) or value.value is not False:
            continue
        node = event.node
        literal = (
            isinstance(node, ast.Call)
            and len(node.args) + len(node.keywords) == 1
            and isinstance((node.args or [k.value for k in node.keywords])[0], ast.Constant)
        )
        edit = (
            context.replace(event, f"{event.script.segment(node.func)}()")
            if literal and isinstance(node, ast.Call)
            else None
        )
        yield context.finding(
            RULE,
            event,
            "gradients are filled with zeros (set_to_none=False): they are written and read once more in each step",
            evidence=[Evidence("set_to_none", False)],
            fix=Fix(
                title="free gradients instead",
                edits=edits(edit) if edit is not None else (),
                instruction="leave out set_to_none",
                expected="one write and one read of all gradients less per step, and a lower peak",
            ),
        )
