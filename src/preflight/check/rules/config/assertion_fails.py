"""Assertion of the script fails with the values it runs with.

## What it does
Follows numbers to the script's own `assert` statements and compares them: `assert n_embd % n_head == 0`, `assert batch_size % world_size == 0`.

## Why
The author wrote down what has to hold, and with these values it does not: the script ends with AssertionError.

## Fix
Change the values so that the assertion holds.

## When to ignore
When the values come from elsewhere at run time.

## References
- Python language reference, "The assert statement"
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Example, Rule
from preflight.source.trace import Event, provenance
from preflight.source.values import Known, Obj, plain, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="assertion-fails", code="CFG020", severity="error", confidence="likely", layer="C", tags=("configuration",)
)

BAD = (
    """
n_embd, n_head = 770, 12
assert n_embd % n_head == 0
""",
    """
from dataclasses import dataclass
@dataclass
class Config:
    width: int = 512
    heads: int = 7
class Attention:
    def __init__(self, config):
        assert config.width % config.heads == 0, "heads must divide the width"
Attention(Config())
""",
    Example(
        """
import argparse
def check(args):
    size = args.batch // args.micro
    assert size * args.micro == args.batch
p = argparse.ArgumentParser()
p.add_argument("--batch", type=int, default=64)
p.add_argument("--micro", type=int, default=8)
check(p.parse_args())
""",
        arguments=("--micro", "12"),
    ),
)

GOOD = (
    """
import argparse
p = argparse.ArgumentParser()
p.add_argument("--data", default=None)
p.add_argument("--mode", default="x")
args = p.parse_args()
assert args.data is not None, "give --data"
assert args.mode in ("train", "eval")
assert len(args.mode) > 0
n = 768
assert n % 12 == 0
assert False, "not reached"
""",
    """
def f(kind):
    if kind == "a":
        return 1
    else:
        assert 0, "unknown"
f("a")
width = read()
assert width % 7 == 0
""",
    """
import os
ranks = int(os.environ.get("WORLD_SIZE", "1"))
assert ranks % 2 == 0, "half of the ranks hold the teacher"
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find assertions over numbers that do not hold."""
    for event in context.trace.calls("assert"):
        test = getattr(event.node, "test", None)
        value = settle(event.args[0])
        if (
            event.context.shadow
            or not isinstance(test, ast.Compare)
            or not isinstance(value, Known)
            or not _main(event)
        ):
            continue
        if not _arithmetic(test) or _launched(value):
            continue
        soft = value.soft
        text = event.script.segment(test)
        yield context.finding(
            RULE,
            event,
            f"this assertion fails{' with the default values' if soft else ''}: {text}",
            severity="warning" if soft else "error",
            evidence=[Evidence(text, False)],
            fix=Fix(
                title="change the values so that the assertion holds",
                instruction=f"make {text} true",
                expected="the script runs on",
            ),
        )


_OF_LAUNCHERS = frozenset(
    "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NODE_RANK GROUP_RANK SLURM_NTASKS SLURM_NNODES SLURM_PROCID "
    "SLURM_LOCALID SLURM_JOB_NUM_NODES OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE PMI_RANK PMI_SIZE".split()
)


def _launched(value: Known) -> bool:
    """Whether the default stands in for what a launcher sets: the script is not meant to be run without one."""
    return any(
        isinstance(part, Obj) and part.name == "os.environ" and part.args and plain(part.args[0]) in _OF_LAUNCHERS
        for part in provenance(value, 100)
    )


def _main(event: Event) -> bool:
    """Whether the script's own run gets here, and nothing catches it."""
    frames = list(event.context.frames())
    return frames[-1].node is None and not any(f.kind in ("try", "except") for f in frames)


def _arithmetic(test: ast.Compare) -> bool:
    """Whether numbers are computed and compared; comparisons with None or text ask for an option."""
    parts = [test.left, *test.comparators]
    if any(not isinstance(op, (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)) for op in test.ops):
        return False
    return any(isinstance(p, ast.BinOp) for p in parts)
