"""Ranks read a file that one rank may still be writing.

## What it does
Looks for a file that only one rank writes (`if rank == 0: torch.save(...)`, a download of a data set) and that the others read afterwards, with no barrier or other collective in between.

## Why
The other ranks do not wait: they skip the branch and open the file at once.
They find none, an old one, or half of a new one; on a slow file system it happens in most runs, on a fast one in few.

## Fix
Call `torch.distributed.barrier()` (`accelerator.wait_for_everyone()`) between the writing and the reading, on all ranks.

## When to ignore
When something that is not seen here makes the ranks wait.

## References
- PyTorch tutorial, "Getting Started with Distributed Data Parallel", "Save and Load Checkpoints"
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.rule import Rule
from preflight.source.ranks import carries_rank, may_ask_rank, rank_frames, rank_guard
from preflight.source.trace import Event
from preflight.source.training import same
from preflight.source.values import Value, plain
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="read-before-written",
    code="DST012",
    severity="warning",
    confidence="likely",
    needs=("distributed", "complete"),
    layer="D",
    tags=("distributed", "checkpoint"),
)

BAD = (
    """
import torch
import torch.distributed as dist
dist.init_process_group("nccl")
model = torch.nn.Linear(4, 2).cuda()
if dist.get_rank() == 0:
    torch.save(model.state_dict(), "start.pt")
model.load_state_dict(torch.load("start.pt", map_location="cuda"))
""",
    """
import os, torch
from torch.distributed import init_process_group as start
from torchvision.datasets import CIFAR10
def data(root, main):
    if main:
        CIFAR10(root, download=True)
    return CIFAR10(root, train=True)
start("nccl")
train = data("data", int(os.environ["RANK"]) == 0)
""",
    """
import argparse, torch
from accelerate import Accelerator
parser = argparse.ArgumentParser()
parser.add_argument("--best", default="best.pt")
args = parser.parse_args()
accelerator = Accelerator()
model = accelerator.prepare(torch.nn.Linear(4, 2))
class Store:
    def __init__(self, path):
        self.path = path
    def write(self, net):
        if accelerator.is_main_process:
            torch.save(net.state_dict(), self.path)
    def read(self):
        return torch.load(self.path)
store = Store(args.best)
store.write(model)
model.load_state_dict(store.read())
""",
)

GOOD = (
    """
import torch
import torch.distributed as dist
dist.init_process_group("nccl")
model = torch.nn.Linear(4, 2).cuda()
if dist.get_rank() == 0:
    torch.save(model.state_dict(), "start.pt")
dist.barrier()
model.load_state_dict(torch.load("start.pt", map_location="cuda"))
if dist.get_rank() == 0:
    torch.save(model.state_dict(), "end.pt")
    check = torch.load("end.pt")
    torch.save(model.state_dict(), "other.pt")
third = torch.load("start.pt")
""",
    """
import os, torch
import torch.distributed as dist
from torchvision.datasets import CIFAR10
dist.init_process_group("nccl")
rank = dist.get_rank()
if rank != 0:
    dist.barrier()
train = CIFAR10("data", download=rank == 0)
if rank == 0:
    CIFAR10("data", download=True)
    dist.barrier()
test = CIFAR10("data", train=False)
""",
)

_FILES = {"torch.save": (1, "f"), "numpy.save": (0, "file"), ".save_pretrained": (0, "save_directory")}
_FILES |= {"safetensors.torch.save_file": (1, "filename"), "pandas.DataFrame.to_csv": (0, "path_or_buf")}
_READS = {"torch.load": (0, "f"), "numpy.load": (0, "file"), "safetensors.torch.load_file": (0, "filename")}
_SYNCS = (
    "torch.distributed.barrier", "torch.distributed.monitored_barrier", "torch.distributed.all_reduce", ".wait_for_everyone",
    "torch.distributed.broadcast", "torch.distributed.broadcast_object_list", "torch.distributed.all_gather", ".barrier",
    "torch.distributed.all_gather_object", "torch.distributed.init_process_group", "torch.nn.parallel.DistributedDataParallel",
    "torch.distributed.fsdp.FullyShardedDataParallel", ".main_process_first", ".local_main_process_first", "deepspeed.comm.barrier",
    "deepspeed.initialize", ".backward", ".prepare", "time.sleep", ".gather", ".gather_for_metrics", ".synchronize", ".reduce",
    "torch.distributed.reduce", "horovod.torch.broadcast_parameters", "horovod.torch.allreduce",
)  # fmt: skip


def check(context: Context) -> Iterator[Finding]:
    """Find files that are read right after one rank began to write them."""
    syncs = context.trace.calls(*_SYNCS)
    if any(".barrier" in s.name and rank_guard(s) is not None for s in syncs):
        return  # one rank goes first while the others wait
    waits = [s.number for s in syncs]
    seen: set[int] = set()
    for write, path in _writes(context):
        for read in _readers(context, write, path):
            if id(read.node) in seen or any(write.number < n < read.number for n in waits):
                continue
            if any(s.context.within(f) for s in syncs for f in read.context.frames() if f.kind == "with"):
                continue
            seen.add(id(read.node))
            yield _finding(context, write, read)
            break


def _writes(context: Context) -> Iterator[tuple[Event, Value]]:
    """What only one rank writes, with its path."""
    for event in context.trace.calls(*_FILES):
        path = event.argument(*_FILES[event.name])
        if path is not None and not event.context.shadow and rank_guard(event) == "global" and not carries_rank(path):
            yield event, path
    for event in context.trace.calls_under("torchvision.datasets."):
        path = event.argument(0, "root")
        if path is not None and _downloads(event) and not event.context.shadow and rank_guard(event) == "global":
            yield event, path


def _downloads(event: Event) -> bool:
    return plain(event.kwargs.get("download")) is True


def _readers(context: Context, write: Event, path: Value) -> Iterator[Event]:
    """Later reads of the same path on ranks that did not write it."""
    if write.name.startswith("torchvision."):
        found = [(e, e.argument(0, "root")) for e in context.trace.calls(write.name) if not _downloads(e)]
    elif write.name == ".save_pretrained":
        found = [(e, e.args[0]) for e in context.trace.events if e.name.endswith(".from_pretrained") and e.args]
    else:
        found = [(e, e.argument(*_READS[e.name])) for e in context.trace.calls(*_READS)]
    for event, other in found:
        if event.number < write.number or event.context.shadow or other is None:
            continue
        if (same(path, other) or (plain(path) is not None and plain(path) == plain(other))) and _elsewhere(
            write, event
        ):
            yield event


def _elsewhere(write: Event, read: Event) -> bool:
    """Whether ranks read that do not write: all of them, or those on the other side of the same test."""
    mine = {id(f.node): f.polarity for _, f in rank_frames(write.context)}
    theirs = [f for _, f in rank_frames(read.context)]
    if theirs:
        return len(theirs) == 1 and mine.get(id(theirs[0].node), theirs[0].polarity) is not theirs[0].polarity
    tests = [f for f in read.context.frames() if f.kind == "if"]
    return rank_guard(read) is None and not any(may_ask_rank(f) for f in tests)


def _finding(context: Context, write: Event, read: Event) -> Finding:
    accelerators = context.reading.made("accelerator")
    call = "accelerator.wait_for_everyone()" if accelerators else "torch.distributed.barrier()"
    guarded = any(True for _ in rank_frames(read.context))
    edit = None if guarded or accelerators or read.script is not write.script else context.insert_before(read, call)
    return context.finding(
        RULE,
        read,
        "every rank reads here what only rank 0 writes, and nothing makes the others wait until it is written",
        evidence=[Evidence("collectives between the writing and the reading", 0)],
        related=[(write, "only one rank writes it")],
        fix=Fix(
            title=f"call {call} before reading",
            edits=edits(edit) if edit is not None and _imports_torch(context) else (),
            instruction=f"call {call} on all ranks between the writing and the reading",
            expected="every rank reads the finished file",
        ),
    )


def _imports_torch(context: Context) -> bool:
    return any(
        isinstance(n, ast.Import) and any(a.name.startswith("torch") and a.asname is None for a in n.names)
        for n in context.reading.script.tree.body
    )
