"""Collective that only some ranks reach.

## What it does
Looks for a collective (`all_reduce`, `all_gather`, `broadcast`, `barrier`, `accelerator.gather`, `engine.save_checkpoint` ...) inside a branch on the rank that the other ranks do not match.

## Why
A collective returns when every rank of the group has called it.
Rank 0 waits for ranks that never come, and the run hangs until the timeout (10 minutes with NCCL, 30 with Gloo).

## Fix
Move the collective out of the branch, and keep only the printing or writing inside.

## When to ignore
When the other ranks meet it with the same collective elsewhere, in a way that the code does not show.

## References
- PyTorch documentation, torch.distributed, "Collective functions"
- DeepSpeed documentation, "Model checkpointing": all processes must call save_checkpoint
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.ranks import divides, rank_frames
from preflight.source.trace import Context as Frame
from preflight.source.trace import Event
from preflight.source.values import Known, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="collective-on-some-ranks",
    code="DST004",
    severity="error",
    confidence="likely",
    needs=("complete",),
    layer="S",
    tags=("distributed", "hang"),
)

BAD = (
    """
import torch
import torch.distributed as dist
dist.init_process_group("nccl")
rank = dist.get_rank()
loss = torch.zeros(1).cuda()
if rank == 0:
    dist.all_reduce(loss)
    print(loss.item())
""",
    """
import os, torch
from torch import distributed as D
def is_main():
    return not D.is_initialized() or D.get_rank() == 0
def log(value):
    if is_main():
        D.reduce(value, dst=0)
        print(value)
D.init_process_group("nccl")
log(torch.ones(1))
""",
    """
import argparse
from accelerate import Accelerator
class Saver:
    def __init__(self, accelerator):
        self.accelerator = accelerator
    def save(self, model, values):
        if self.accelerator.is_main_process:
            all_values = self.accelerator.gather(values)
            self.accelerator.save(all_values, "values.pt")
Saver(Accelerator()).save(model, values)
""",
    """
import argparse, torch
import torch.distributed as dist
p = argparse.ArgumentParser()
p.add_argument("--local_rank", type=int, default=-1)
args = p.parse_args()
dist.init_process_group("nccl")
if args.local_rank not in (-1, 0):
    dist.barrier()
data = prepare()
""",
)

GOOD = (
    """
import torch.distributed as dist
_GROUP = None
def data_group():
    return _GROUP
def write(text):
    if dist.get_rank() % 8 == 0:
        dist.barrier(group=data_group())
        open("out", "w").write(text)
dist.init_process_group("nccl")
write("done")
""",
    """
import argparse, torch
import torch.distributed as dist
p = argparse.ArgumentParser()
p.add_argument("--local_rank", type=int, default=-1)
args = p.parse_args()
if args.local_rank != -1:
    dist.init_process_group("nccl")
    dist.barrier()
if args.local_rank not in (-1, 0):
    dist.barrier()
data = prepare()
if args.local_rank == 0:
    dist.barrier()
""",
    """
import torch.distributed as dist
dist.init_process_group("nccl")
rank = dist.get_rank()
objects = [None]
if rank == 0:
    objects = [load()]
    dist.broadcast_object_list(objects, src=0)
else:
    dist.broadcast_object_list(objects, src=0)
if rank == 0:
    dist.send(tensor, dst=1)
elif rank == 1:
    dist.recv(tensor, src=0)
""",
    """
import torch.distributed as dist
dist.init_process_group("nccl")
first = dist.new_group([0, 1])
if dist.get_rank() < 2:
    dist.all_reduce(tensor, group=first)
if dist.get_world_size() > 1:
    dist.all_reduce(tensor)
""",
    """
import torch, torch.distributed as dist
class Codebook(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("uses", torch.zeros(8))
    def forward(self, x):
        if self.training:
            dist.all_reduce(self.uses)
        return x
dist.init_process_group("nccl")
model = Codebook()
for x in loader:
    model(x)
    if dist.get_rank() == 0:
        model.eval()
        show(model(x))
        model.train()
""",
)

_D = "torch.distributed."
_COLLECTIVES = tuple(
    _D + n
    for n in [
        "all_reduce",
        "all_gather",
        "all_gather_into_tensor",
        "all_gather_object",
        "all_to_all",
        "all_to_all_single",
        "barrier",
        "broadcast",
        "broadcast_object_list",
        "gather",
        "gather_object",
        "monitored_barrier",
        "reduce",
        "reduce_scatter",
        "reduce_scatter_tensor",
        "scatter",
        "scatter_object_list",
        "new_group",
    ]
)
_OF_ROLE = {
    ".gather": ("accelerator",),
    ".gather_for_metrics": ("accelerator",),
    ".reduce": ("accelerator",),
    ".wait_for_everyone": ("accelerator",),
    ".save_checkpoint": ("engine",),
}


def check(context: Context) -> Iterator[Finding]:
    """Find collectives under a branch on the rank without a partner."""
    found: dict[str, list[tuple[Event, Frame]]] = {}
    for event in context.trace.calls(*_COLLECTIVES, *_OF_ROLE):
        if not _whole_group(context, event):
            continue
        frame = next((f for _, f in rank_frames(event.context) if divides(f)), None)
        if frame is not None and not _rests_in_evaluation(context, event, frame):
            found.setdefault(event.name, []).append((event, frame))
    for name, places in found.items():
        branches = {(id(frame.node), frame.polarity) for _, frame in places}
        if len(branches) > 1:
            continue  # other ranks may meet it at the other place
        event, frame = places[0]
        shown = name.rpartition(".")[2]
        yield context.finding(
            RULE,
            event,
            f"{shown}() is called by some ranks only: they wait for the others, which never call it, until the timeout",
            evidence=[
                Evidence(
                    "branch",
                    frame.script.segment(getattr(frame.node, "test", frame.node))
                    if frame.script and frame.node
                    else None,
                ),
                Evidence(f"calls of {shown} by the other ranks", 0),
            ],
            fix=Fix(
                title=f"call {shown}() on all ranks",
                instruction=f"move {shown}() out of the branch; keep only what one rank should do inside",
                expected="no rank waits for another one for ever",
            ),
            related=[((frame.script, frame.node), "the branch on the rank")] if frame.script and frame.node else [],
        )


def _rests_in_evaluation(context: Context, event: Event, branch: Frame) -> bool:
    """Whether a collective stands under ``if self.training:`` of a module that the branch has put into evaluation."""
    trains = any(
        f.kind == "if" and f.polarity and getattr(settle(f.value), "name", "") == "training"
        for f in event.context.frames()
        if f.value is not None and f.within(branch)
    )
    return trains and any(e.context.within(branch) and e.number < event.number for e in context.trace.calls(".eval"))


def _whole_group(context: Context, event: Event) -> bool:
    roles = _OF_ROLE.get(event.name)
    if roles is not None:
        return context.roles.of(event.receiver) in roles
    group = event.kwargs.get("group")
    if group is None:
        return True
    # A function that hands out a group may begin with None, until another one has made it.
    written = next((k.value for k in getattr(event.node, "keywords", ()) if k.arg == "group"), None)
    return isinstance(settle(group), Known) and context.value(group) is None and not isinstance(written, ast.Call)
