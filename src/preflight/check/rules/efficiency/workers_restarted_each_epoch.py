"""Workers are started anew in each epoch.

## What it does
Looks for a loader with workers and without `persistent_workers=True` that is iterated once per epoch.

## Why
At the end of an epoch the worker processes end; at the start of the next they start again, import, and copy the dataset (all of it, where they are spawned), with an empty queue of batches each time.
It matters where epochs are short.

## Fix
Pass `persistent_workers=True`.

## When to ignore
When an epoch takes many minutes, or when the dataset object is changed between epochs, which persistent workers would not see.

## References
- PyTorch documentation, `torch.utils.data.DataLoader`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.loaders import set_argument, setting, source_loaders, torch_loaders
from preflight.check.queries.steps import step_loops
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="workers-restarted-each-epoch",
    code="EFF020",
    severity="info",
    confidence="likely",
    needs=("training_loop", "loader"),
    layer="C",
    persona="pedantic",
    tags=("data",),
)

_LOOP = """
model = torch.nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(90):
    for x, y in loader:
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
"""
BAD = (
    "import torch\nfrom torch.utils.data import DataLoader\nloader = DataLoader(data, batch_size=8, shuffle=True, num_workers=4)\n"
    + _LOOP,
    "import torch\nimport torch.utils.data as tud\ndef build(n):\n    return tud.DataLoader(data, 8, True, num_workers=n, persistent_workers=False)\n"
    "loader = build(2)\n" + _LOOP,
    "import argparse, torch\nparser = argparse.ArgumentParser()\nparser.add_argument('--workers', type=int, default=8)\n"
    "args = parser.parse_args()\nloader = torch.utils.data.DataLoader(data, 8, True, num_workers=args.workers)\n"
    + _LOOP,
)
GOOD = (
    "import torch\nfrom torch.utils.data import DataLoader\n"
    "loader = DataLoader(data, batch_size=8, shuffle=True, num_workers=4, persistent_workers=True)\n" + _LOOP,
    "import torch\nfrom torch.utils.data import DataLoader\nloader = DataLoader(data, batch_size=8, shuffle=True, num_workers=4)\n"
    + _LOOP.replace("for epoch in range(90):", "if True:"),
)


def check(context: Context) -> Iterator[Finding]:
    """Find loaders with workers that end with each epoch."""
    own = {id(o) for o in torch_loaders(context)}
    for loop in step_loops(context):
        if not loop.outer:
            continue
        for loader in source_loaders(context, loop.frame.value):
            workers = setting(loader, "num_workers")
            if (
                id(loader) not in own
                or not isinstance(workers, int)
                or workers < 1
                or setting(loader, "persistent_workers") is not False
            ):
                continue
            if loader.context is not None and loader.context.within(loop.outer[0]):
                continue
            edit = set_argument(context, loader, "persistent_workers", "True")
            yield context.finding(
                RULE,
                loader,
                f"the {workers} workers end with each epoch and start anew in the next (persistent_workers is off)",
                evidence=[Evidence("num_workers", workers), Evidence("persistent_workers", False)],
                fix=Fix(
                    title="keep the workers",
                    safe=False,
                    edits=edits(edit) if edit is not None else (),
                    instruction="pass persistent_workers=True",
                    expected="no pause at the start of an epoch",
                ),
            )
