"""The loader is made anew in each epoch.

## What it does
Looks for a `DataLoader` with workers that is made inside the loop over epochs from a dataset that does not change.

## Why
Each new loader starts its workers and fills its queue again, and `persistent_workers` cannot help.

## Fix
Make the loader once before the loop.

## When to ignore
When settings of the loader change from epoch to epoch.

## References
- PyTorch documentation, `torch.utils.data.DataLoader`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.loaders import given, setting, source_loaders, torch_loaders
from preflight.check.queries.steps import each_pass, step_loops
from preflight.check.rule import Rule
from preflight.source.trace import Context as Frame
from preflight.source.trace import parents_of
from preflight.source.values import Obj, Phi, Unknown
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="loader-made-each-epoch",
    code="EFF026",
    severity="info",
    confidence="likely",
    needs=("training_loop", "loader"),
    layer="D",
    tags=("data",),
)

_LOOP = """
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
"""
_HEAD = "import torch\nfrom torch.utils.data import DataLoader\nmodel = torch.nn.Linear(10, 2)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
BAD = (
    _HEAD + "data = torch.utils.data.TensorDataset(a)\nfor epoch in range(3):\n"
    "    for x, y in DataLoader(data, batch_size=8, shuffle=True, num_workers=4):" + _LOOP,
    _HEAD
    + "def batches(d, n):\n    return DataLoader(d, 8, True, num_workers=n)\ndata = torch.utils.data.TensorDataset(a)\n"
    "for epoch in range(3):\n    loader = batches(data, 2)\n    for x, y in loader:" + _LOOP,
    _HEAD
    + "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--workers', type=int, default=4)\n"
    "args = parser.parse_args()\ndata = torch.utils.data.TensorDataset(a)\nfor epoch in range(3):\n"
    "    loader = DataLoader(data, batch_size=8, shuffle=True, num_workers=args.workers)\n    for x, y in loader:"
    + _LOOP,
)
GOOD = (
    _HEAD
    + "data = torch.utils.data.TensorDataset(a)\nloader = DataLoader(data, batch_size=8, shuffle=True, num_workers=4)\n"
    "for epoch in range(3):\n    for x, y in loader:" + _LOOP,
    _HEAD + "for epoch in range(3):\n    data = torch.utils.data.TensorDataset(make(epoch))\n"
    "    for x, y in DataLoader(data, batch_size=8, shuffle=True, num_workers=4):" + _LOOP,
)


def check(context: Context) -> Iterator[Finding]:
    """Find loaders made in each epoch from the same dataset."""
    own = {id(o) for o in torch_loaders(context)}
    for loop in step_loops(context):
        epochs = loop.outer[0] if loop.outer else None
        if epochs is None:
            continue
        for loader in source_loaders(context, loop.frame.value):
            workers = setting(loader, "num_workers")
            if id(loader) not in own or loader.context is None or not isinstance(workers, int) or workers < 1:
                continue
            if not loader.context.within(epochs) or not each_pass(loader.context, epochs) or _changes(loader, epochs):
                continue
            yield context.finding(
                RULE,
                loader,
                f"a loader is made in each epoch from a dataset that does not change: its {workers} workers start anew each time",
                evidence=[Evidence("num_workers", workers)],
                fix=Fix(
                    title="make the loader once",
                    instruction="make the loader before the loop over epochs, with persistent_workers=True",
                    expected="no pause at the start of an epoch",
                ),
            )


def _changes(loader: Obj, epochs: Frame) -> bool:
    """Whether something that the loader is made of is made, or changes, in each epoch."""
    if given(loader, "dataset") is None:
        return True
    stack = [*loader.args, *loader.kwargs.values()]
    seen: set[int] = set()
    while stack and len(seen) < 200:
        part = stack.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, (Phi, Unknown)):
            return True
        if isinstance(part, Obj) and part.context is not None and not part.context.within(epochs):
            continue  # made before the loop
        if isinstance(part, Obj):
            return True
        stack.extend(parents_of(part))
    return False
