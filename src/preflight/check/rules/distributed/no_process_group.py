"""Collective without a process group.

## What it does
Looks for collectives and rank queries of `torch.distributed` in a script where nothing starts a process group.

## Why
`torch.distributed.get_rank()` and every collective raise ("Default process group has not been initialized") unless a group exists; torchrun alone does not make one.

## Fix
Call `torch.distributed.init_process_group()` first, or guard the call with `torch.distributed.is_initialized()`.

## When to ignore
When a library that the script uses starts the group.

## References
- PyTorch documentation, torch.distributed, "Initialization"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.trace import Event, provenance
from preflight.source.values import Known, Obj, Value
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="no-process-group",
    code="DST008",
    severity="info",
    confidence="likely",
    needs=("complete",),
    layer="D",
    tags=("distributed",),
)

BAD = (
    """
import torch.distributed as dist
print(dist.get_rank())
""",
    """
import torch
from torch import distributed as D
def mean(value):
    D.all_reduce(value)
    return value / D.get_world_size()
mean(torch.ones(1))
""",
    """
import argparse
import torch.distributed
class Log:
    def __init__(self, args):
        self.first = torch.distributed.get_rank() == args.rank
p = argparse.ArgumentParser()
p.add_argument("--rank", type=int, default=0)
Log(p.parse_args())
""",
)

GOOD = (
    """
import torch.distributed as dist
def rank():
    if not dist.is_available() or not dist.is_initialized():
        return 0
    return dist.get_rank()
print(rank())
""",
    """
import torch.distributed as dist
from helpers import setup_distributed
setup_distributed()
print(dist.get_rank())
""",
    """
import os
import torch.distributed as dist
if "RANK" in os.environ:
    dist.init_process_group("nccl")
    print(dist.get_rank())
""",
    """
import torch.distributed as dist
from transformers import TrainingArguments
args = TrainingArguments("out")
print(dist.get_rank())
""",
)

_D = "torch.distributed."
_NEEDS = tuple(
    _D + n
    for n in [
        "get_rank",
        "get_world_size",
        "all_reduce",
        "all_gather",
        "barrier",
        "broadcast",
        "reduce",
        "reduce_scatter",
        "scatter",
        "gather",
    ]
)
_STARTS = ("init_process_group", "init_device_mesh", "init_distributed", "init")


def check(context: Context) -> Iterator[Finding]:
    """Find uses without anything that could start a group."""
    calls = [e for e in context.trace.calls(*_NEEDS) if not e.context.shadow and _main(e)]
    if not calls or _may_start(context):
        return
    for event in calls:
        if any(f.kind in ("if", "try") and _asks(f.value, f.kind) for f in event.context.frames()):
            continue
        yield context.finding(
            RULE,
            event,
            f"{event.name.rpartition('.')[2]}() needs a process group, and nothing in the script starts one",
            evidence=[Evidence("calls that start a process group", 0)],
            fix=Fix(
                title="start a process group first",
                instruction="call torch.distributed.init_process_group(), or ask torch.distributed.is_initialized() before",
                expected="the call does not raise",
            ),
        )
        return


def _main(event: Event) -> bool:
    return list(event.context.frames())[-1].node is None


def _may_start(context: Context) -> bool:
    """Whether a group is started, or anything of a library or of code that is not seen is called that may start one."""
    for name, events in context.trace.by_name.items():
        last = name.rpartition(".")[2]
        if last in _STARTS or "setup" in last or ("init" in last and not last.startswith("__")):
            return True
        top = name.partition(".")[0]
        if top in (
            "deepspeed",
            "accelerate",
            "transformers",
            "lightning",
            "horovod",
            "colossalai",
            "megatron",
            "fairscale",
            "ray",
            "trl",
            "torchtune",
        ):
            return True
        if "." in name and not name.startswith(".") and top not in _LIBRARIES and not any(e.inlined for e in events):
            return True
    return False


_LIBRARIES = frozenset(
    [
        "torch",
        "builtins",
        "os",
        "sys",
        "math",
        "numpy",
        "random",
        "time",
        "argparse",
        "json",
        "logging",
        "torchvision",
        "pathlib",
        "functools",
        "collections",
        "tqdm",
        "copy",
    ]
)


def _asks(value: Value | None, kind: str) -> bool:
    if kind == "try":
        return True
    if isinstance(value, Known) and not value.parents:
        return True
    return any(
        isinstance(p, Obj) and p.name in (_D + "is_initialized", _D + "is_available", "os.environ")
        for p in provenance(value, 60)
    )
