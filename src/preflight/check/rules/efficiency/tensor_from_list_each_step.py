"""A tensor is built from a list of arrays in each step.

## What it does
Looks for `torch.tensor([...])`, `torch.FloatTensor(list)` and their kin over lists that hold arrays of NumPy, in each training step.

## Why
PyTorch then reads the list number by number through Python: 64 arrays of 1,000 numbers are 64,000 Python objects, where `torch.from_numpy(np.stack(arrays))` copies 64 blocks of memory.
PyTorch itself warns of it as "extremely slow".

## Fix
`torch.from_numpy(np.stack(arrays))`; or do it in the collate function of a loader with workers.

## When to ignore
When the list holds a few numbers.

## References
- PyTorch, warning "Creating a tensor from a list of numpy.ndarrays is extremely slow"
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.steps import each_pass, step_loops
from preflight.check.rule import Rule
from preflight.source.values import Obj, Seq, Value, options_of, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="tensor-from-list-each-step",
    code="EFF016",
    severity="info",
    confidence="likely",
    needs=("training_loop",),
    layer="S",
    tags=("data",),
)

_HEAD = """
import numpy as np, torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
_STEP = """
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
"""
BAD = (
    _HEAD + "while True:\n    x = torch.tensor([np.array(row) for row in next(rows)])" + _STEP,
    _HEAD + "from torch import FloatTensor as F\ndef load(batch):\n    return F([np.load(name) for name in batch])\nfor batch in names:\n    x = load(batch)" + _STEP,
    _HEAD + "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--n', type=int, default=8)\nargs = parser.parse_args()\n"
    "class Memory:\n    def sample(self):\n        return torch.tensor([np.zeros(10) + i for i in range(args.n * 100000)])\n"
    "memory = Memory()\nfor step in range(100000):\n    x = memory.sample()" + _STEP,
)  # fmt: skip
GOOD = (
    _HEAD + "while True:\n    x = torch.from_numpy(np.stack([np.array(row) for row in next(rows)]))" + _STEP,
    _HEAD
    + "fixed = torch.tensor([np.zeros(3), np.ones(3)])\nfor batch in names:\n    x = torch.tensor([len(s) for s in batch])"
    + _STEP,
)

_BUILDERS = (
    "torch.tensor",
    "torch.as_tensor",
    "torch.FloatTensor",
    "torch.LongTensor",
    "torch.Tensor",
    "torch.cuda.FloatTensor",
)
_ARRAY = r"^numpy\.(array|asarray|zeros|ones|load|concatenate|stack|reshape|transpose|float32|random\.\w+|frombuffer|full|arange|linspace)$"


def check(context: Context) -> Iterator[Finding]:
    """Find lists of arrays that become tensors in each step."""
    for loop in step_loops(context):
        for event in context.trace.calls(*_BUILDERS):
            if not event.context.within(loop.frame) or not each_pass(event.context, loop.frame) or not event.args:
                continue
            held = settle(event.args[0])
            if not isinstance(held, Seq) or not held.items or not any(_is_array(item) for item in held.items[:3]):
                continue
            yield context.finding(
                RULE,
                event,
                f"{event.name} reads a list of arrays number by number through Python in each step",
                evidence=[Evidence("given", "list of arrays"), Evidence("called", "in each step")],
                fix=Fix(
                    title="stack the arrays first",
                    instruction="torch.from_numpy(np.stack(arrays)), or collate in the workers of a loader",
                    expected="one copy of memory instead of a walk through Python objects",
                ),
            )


def _is_array(item: Value) -> bool:
    for option in options_of(item, limit=3):
        if isinstance(option, Obj):
            if re.match(_ARRAY, option.name):
                return True
            if option.kind == "op" and any(_is_array(a) for a in option.args):
                return True
    return False
