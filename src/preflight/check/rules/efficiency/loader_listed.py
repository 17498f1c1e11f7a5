"""A loader is turned into a list.

## What it does
Looks for `list(loader)`, `tuple(loader)` and `len(list(loader))`.

## Why
All batches of the dataset are prepared, held in memory at once, and then often thrown away: `len(list(loader))` reads the whole dataset to count it, where `len(loader)` answers at once.

## Fix
Use `len(loader)`, or loop over the loader.

## When to ignore
When the dataset is small and all its batches are kept on purpose, to save preparing them again.

## References
- PyTorch documentation, `torch.utils.data.DataLoader`
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.loaders import feeding
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import Obj, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="loader-listed",
    code="EFF011",
    severity="warning",
    confidence="likely",
    needs=("loader",),
    layer="D",
    tags=("data",),
)

BAD = (
    """
from torch.utils.data import DataLoader
loader = DataLoader(data, batch_size=8)
steps = len(list(loader))
""",
    """
import torch.utils.data as tud
class Data:
    def __init__(self):
        self.loader = tud.DataLoader(rows, 4, True)
    def __len__(self):
        return len(tuple(self.loader))
print(len(Data()), Data().__len__())
""",
    """
import argparse
from torch.utils.data import DataLoader as Loader
parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=8)
args = parser.parse_args()
def count(batches):
    return len(list(enumerate(batches)))
total = count(Loader(data, args.batch)) * 10
""",
)
GOOD = (
    """
from torch.utils.data import DataLoader
loader = DataLoader(data, batch_size=8)
steps = len(loader)
for batch in list(range(3)):
    pass
""",
    """
from torch.utils.data import DataLoader
loaders = [DataLoader(d, batch_size=8) for d in parts]
print(len(list(loaders)), list(loaders[0].dataset.classes))
""",
    """
from torch.utils.data import DataLoader
batches = list(DataLoader(data, batch_size=8))
print(len(batches))
for epoch in range(3):
    for batch in batches:
        print(batch)
""",
    """
import random
from torch.utils.data import DataLoader
batches = list(DataLoader(data, batch_size=8))
random.shuffle(batches)
print(len(batches))
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find loaders whose batches are all drawn to count or keep them."""
    for event in context.trace.calls("builtins.list", "builtins.tuple", "builtins.sorted"):
        loader = _loader(context, event.args[0] if event.args else None)
        if loader is None:
            continue
        if not _only_counted(context, event) and not _counted(context, event.node):
            if not any(f.kind == "loop" for f in event.context.frames()):
                continue  # kept once on purpose
            told = "all batches are prepared and held in memory at once, again in each pass of the loop"
        else:
            told = "all batches of the dataset are prepared only to count them"
        node = event.node
        plain = isinstance(node, ast.Call) and _plain(context, node)
        edit = context.replace(event, event.script.segment(node.args[0])) if plain else None  # type: ignore[attr-defined]
        yield context.finding(
            RULE,
            event,
            told,
            evidence=[Evidence("call", event.name.rpartition(".")[2] + "(loader)")],
            related=[(loader, "the loader")],
            fix=Fix(
                title="use len(loader), or loop over the loader",
                edits=edits(edit) if edit is not None else (),
                instruction="len(loader) is the number of batches and reads no data",
                expected="no pass over the dataset, no batches in memory",
            ),
        )


def _loader(context: Context, value: object) -> Obj | None:
    base = settle(value) if isinstance(value, Value) else None
    while (
        isinstance(base, Obj)
        and base.name in ("builtins.enumerate", "tqdm.tqdm", "tqdm.auto.tqdm", "builtins.iter")
        and base.args
    ):
        base = settle(base.args[0])
    return base if isinstance(base, Obj) and context.roles.of(base) == "loader" and base.kind == "call" else None


def _only_counted(context: Context, event: Event) -> bool:
    """Whether a list that a variable holds is given to ``len`` and to nothing else."""
    made = event.result
    if made is None or any(settle(f.value) is made for f in feeding(context).frames if f.value is not None):
        return False
    users = [
        e.name
        for e in context.trace.events
        if e is not event
        and any(v is not None and settle(v) is made for v in (e.receiver, *e.args, *e.kwargs.values()))
    ]
    return bool(users) and set(users) == {"builtins.len"}


def _counted(context: Context, node: object) -> bool:
    """Whether a call is the argument of ``len``."""
    for script in context.reading.scripts:
        for outer in ast.walk(script.tree):
            if (
                isinstance(outer, ast.Call)
                and isinstance(outer.func, ast.Name)
                and outer.func.id == "len"
                and node in outer.args
            ):
                return True
    return False


def _plain(context: Context, node: ast.Call) -> bool:
    """Whether ``len(list(loader))`` can become ``len(loader)`` by a change of text."""
    return len(node.args) == 1 and isinstance(node.args[0], (ast.Name, ast.Attribute)) and _counted(context, node)
