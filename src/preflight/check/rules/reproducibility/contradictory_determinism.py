"""Determinism is asked for, and cuDNN's benchmark mode is on.

## What it does
Looks for `torch.backends.cudnn.benchmark = True` on a path that also asks for deterministic algorithms.

## Why
In benchmark mode cuDNN times several algorithms and takes the fastest, which need not be the same one in the next run.
Different algorithms add in a different order: the runs differ from the first step on, although a seed is set.

## Fix
Set `benchmark = False` where `deterministic = True` is set.

## When to ignore
When small differences between runs do not matter; then drop `deterministic`, which costs speed.

## References
- PyTorch, "Reproducibility", section "CUDA convolution benchmarking"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.rule import Rule
from preflight.source.trace import Event, Store
from preflight.source.training import same_guards
from preflight.source.values import Ext, Known, plain, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="contradictory-determinism", code="REP002", severity="warning", confidence="likely", tags=("reproducibility",)
)

BAD = (
    """
import torch
torch.manual_seed(0)
torch.backends.cudnn.deterministic = True
torch.backends.cudnn.benchmark = True
""",
    """
import argparse, random, torch
import torch.backends.cudnn as cudnn
parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=None)
args = parser.parse_args()
if args.seed is not None:
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    cudnn.deterministic = True
def main():
    cudnn.benchmark = True
main()
""",
    """
import torch
from torch.backends import cudnn as c
class Setup:
    fast = True
    def __init__(self):
        c.benchmark = self.fast
        torch.use_deterministic_algorithms(True)
Setup()
""",
)

GOOD = (
    """
import torch
from torch.backends import cudnn
if deterministic:
    cudnn.deterministic = True
    cudnn.benchmark = False
else:
    cudnn.benchmark = True
""",
    """
import torch
from torch.backends import cudnn
cudnn.benchmark = True
def fix(seed):
    torch.manual_seed(seed)
    cudnn.deterministic = True
    cudnn.benchmark = False
fix(1)
""",
    """
import torch
torch.manual_seed(0)
torch.backends.cudnn.benchmark = True
torch.use_deterministic_algorithms(False)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find the flag and its contradiction."""
    flags = [
        s
        for s in context.trace.stores
        if isinstance(settle(s.target), Ext) and s.name in ("benchmark", "deterministic")
    ]
    flags = [s for s in flags if getattr(settle(s.target), "name", "") == "torch.backends.cudnn"]
    wishes: list[Event | Store] = [s for s in flags if s.name == "deterministic" and plain(s.value) is True]
    wishes += [
        e for e in context.trace.calls("torch.use_deterministic_algorithms")
        if plain(e.argument(0, "mode")) is True and plain(e.kwargs.get("warn_only")) is not True
    ]  # fmt: skip
    told: set[int] = set()
    for wish in wishes:
        mine = [s for s in flags if s.name == "benchmark" and same_guards(wish, s)]  # type: ignore[arg-type]
        last = max(mine, key=lambda s: s.number, default=None)
        worth = settle(last.value) if last is not None else None
        if last is None or not isinstance(worth, Known) or worth.value is not True or id(last.node) in told:
            continue
        if last.context.shadow and not wish.context.shadow:
            continue
        told.add(id(last.node))
        yield _finding(context, last, wish)


def _finding(context: Context, flag: Store, wish: Event | Store) -> Finding:
    value = getattr(flag.node, "value", None)
    edit = None
    if value is not None and flag.script.segment(value) == "True" and not wish.context.shadow:
        edit = context.replace((flag.script, value), "False")
    asked = "cudnn.deterministic = True" if isinstance(wish, Store) else "torch.use_deterministic_algorithms(True)"
    return context.finding(
        RULE,
        flag,
        f"cudnn.benchmark is on, although {asked} asks for repeatable runs: each run chooses algorithms by timing",
        evidence=[Evidence("torch.backends.cudnn.benchmark", True), Evidence("asked for", asked)],
        fix=Fix(
            title="switch the benchmark mode off where determinism is asked for",
            edits=edits(edit) if edit is not None else (),
            instruction="set cudnn.benchmark = False beside it, or cudnn.benchmark = not deterministic",
            expected="runs with one seed are alike",
        ),
        related=[(wish, "determinism is asked for here")],
    )
