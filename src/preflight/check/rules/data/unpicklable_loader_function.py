"""A function that workers need cannot be pickled.

## What it does
Looks for a lambda or a local function given as `collate_fn` or `worker_init_fn` to a `DataLoader` with worker processes.

## Why
Where workers are spawned, their functions are pickled, and Python cannot pickle a lambda or a function that is defined inside another one: the first iteration raises a PicklingError.
Workers are spawned on Windows and macOS, wherever the script asks for `spawn` or `forkserver`, and by default on Linux from Python 3.14 on (forkserver).

## Fix
Define the function at the top level of a module; use `functools.partial` for its settings.

## When to ignore
When the script only ever runs where workers are forked.

## References
- Python documentation, `multiprocessing`, "Contexts and start methods"
- PyTorch documentation, `torch.utils.data`, "Platform-specific behaviors"
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.loaders import given, setting, torch_loaders
from preflight.check.rule import Rule
from preflight.source.values import Func, Known, Obj, options_of, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="unpicklable-loader-function",
    code="DAT010",
    severity="info",
    confidence="likely",
    needs=("loader",),
    layer="D",
    tags=("data",),
)

BAD = (
    """
from torch.utils.data import DataLoader
loader = DataLoader(data, batch_size=8, num_workers=2, collate_fn=lambda batch: batch)
""",
    """
import argparse
import torch.utils.data as tud
import torch.multiprocessing as mp
parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=4)
args = parser.parse_args()
mp.set_start_method("spawn")
def build(seed):
    def seed_worker(index):
        import random
        random.seed(seed + index)
    return tud.DataLoader(data, 8, num_workers=args.workers, worker_init_fn=seed_worker)
build(1)
""",
    """
from torch.utils.data import DataLoader as Loader
class Data:
    workers = 2
    def loader(self):
        pad = lambda batch: list(batch)
        return Loader(self.rows, collate_fn=pad, num_workers=self.workers, multiprocessing_context="spawn")
Data().loader()
""",
)
GOOD = (
    """
from torch.utils.data import DataLoader
loader = DataLoader(data, batch_size=8, collate_fn=lambda batch: batch)
""",
    """
import functools
from torch.utils.data import DataLoader
def pad(batch, value):
    return batch
class Collate:
    def __call__(self, batch):
        return batch
a = DataLoader(data, batch_size=8, num_workers=2, collate_fn=functools.partial(pad, value=0))
b = DataLoader(data, batch_size=8, num_workers=2, collate_fn=Collate())
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find lambdas and local functions that workers would have to unpickle."""
    for loader in torch_loaders(context):
        workers = setting(loader, "num_workers")
        if not isinstance(workers, int) or workers < 1:
            continue
        for name in ("collate_fn", "worker_init_fn"):
            func = next((o for o in options_of(given(loader, name)) if isinstance(o, Func)), None)
            if func is None or not _local(func):
                continue
            method = _start_method(context, loader)
            kind = "lambda" if isinstance(func.node, ast.Lambda) else "function defined inside another"
            where = (
                f"the script starts workers by {method}"
                if method
                else "this fails where workers are spawned (Windows, macOS, Python 3.14)"
            )
            yield context.finding(
                RULE,
                loader,
                f"{name} is a {kind}, which cannot be pickled for the {workers} workers: {where}",
                evidence=[Evidence(name, kind), Evidence("num_workers", workers), Evidence("start method", method)],
                related=[((func.module.script, func.node), "the function")],
                fix=Fix(
                    title=f"define the {name} at the top level of the module",
                    instruction="move the function out, and bind its settings with functools.partial",
                    expected="workers start on every platform",
                ),
                severity="error" if method else None,
            )


def _local(func: Func) -> bool:
    return isinstance(func.node, ast.Lambda) or (func.closure is not None and func.owner is None)


def _start_method(context: Context, loader: Obj) -> str | None:
    value = given(loader, "multiprocessing_context")
    base = settle(value) if value is not None else None
    if isinstance(base, Obj) and base.name.endswith("get_context") and base.args:
        base = settle(base.args[0])
    if isinstance(base, Known) and base.value in ("spawn", "forkserver"):
        return str(base.value)
    if base is not None and not (isinstance(base, Known) and base.value is None):
        return None
    for event in context.trace.calls("torch.multiprocessing.set_start_method", "multiprocessing.set_start_method"):
        method = context.value(event.argument(0, "method"))
        if method in ("spawn", "forkserver") and not event.context.shadow:
            return str(method)
    return None
