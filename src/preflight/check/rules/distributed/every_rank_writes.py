"""Every rank, or one rank of each node, writes the same file.

## What it does
Looks for `torch.save`, `save_pretrained` and `save_file` in a distributed script that no branch on the global rank guards, and whose path does not name the rank.
A guard on the *local* rank lets one process of every node write.

## Why
N processes write one file at the same time: the result is whichever wrote last, or a mixture that cannot be loaded.
With a local guard the mistake only shows on the second node.

## Fix
Write under `if torch.distributed.get_rank() == 0:`, or put the rank into the name of the file.

## When to ignore
When each process writes to a disk of its own, or each node has its own disk and needs its own copy.

## References
- PyTorch tutorial, "Multinode Training"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.options import from_option
from preflight.check.rule import Rule
from preflight.source.evaluate.library.methods import is_module
from preflight.source.ranks import carries_rank, makes_group, may_ask_rank, rank_guard
from preflight.source.trace import Event, provenance
from preflight.source.values import Known, Obj, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="every-rank-writes",
    code="DST006",
    severity="warning",
    confidence="likely",
    needs=("complete",),
    layer="D",
    tags=("distributed", "checkpoint"),
)

BAD = (
    """
import torch
import torch.distributed as dist
from torch import nn
dist.init_process_group("nccl")
model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2).cuda())
for epoch in range(10):
    train(epoch)
    torch.save(model.state_dict(), "checkpoint.pt")
""",
    """
import os, torch
from torch.distributed import init_process_group
class Trainer:
    def __init__(self, model):
        self.local_rank = int(os.environ["LOCAL_RANK"])
        self.model = model
    def save(self, epoch):
        path = f"checkpoint_{epoch}.pt"
        torch.save(self.model.state_dict(), path)
    def run(self):
        for epoch in range(3):
            if self.local_rank == 0:
                self.save(epoch)
init_process_group("nccl")
Trainer(torch.nn.Linear(4, 2)).run()
""",
    """
import argparse, torch
import torch as T
p = argparse.ArgumentParser()
p.add_argument("--local_rank", type=int, default=-1)
p.add_argument("--out", default="out")
args = p.parse_args()
torch.distributed.init_process_group("nccl")
first = args.local_rank in (-1, 0)
model = torch.nn.Linear(4, 2)
if first:
    T.save({"model": model.state_dict(), "step": 1}, args.out + "/last.pt")
""",
    """
import torch
import torch.distributed as dist
from torch import nn
dist.init_process_group("nccl")
model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2).cuda())
done = 0
for epoch in range(epochs):
    for index, batch in enumerate(my_loader(epoch)):
        step(batch)
        done += 1
        if index % 100 == 0 and done > 1000:
            torch.save(model.state_dict(), f"checkpoint-{epoch}.pt")
""",
)

GOOD = (
    """
import torch
from torch.distributed.device_mesh import init_device_mesh
class Trainer:
    def __init__(self, model, device_mesh):
        self.model, self.device_mesh = model, device_mesh
    def save(self):
        if self.device_mesh.get_rank() == 0:
            torch.save(self.model.state_dict(), "last.pt")
torch.distributed.init_process_group("nccl")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
trainer = Trainer(model, mesh_of_run())
for x in loader:
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
trainer.save()
""",
    """
import os, torch
import torch.distributed as dist
def is_main():
    return dist.get_rank() == 0
def save_on_master(*args):
    if is_main():
        torch.save(*args)
dist.init_process_group("nccl")
save_on_master({"a": 1}, "checkpoint.pt")
rank = dist.get_rank()
torch.save({"a": 1}, f"shard_{rank}.pt")
""",
    """
import torch
from utils import is_main_process, init
import torch.distributed as dist
dist.init_process_group("nccl")
if is_main_process():
    torch.save({"a": 1}, "checkpoint.pt")
""",
    """
import io, torch
import torch.distributed as dist
dist.init_process_group("nccl")
buffer = io.BytesIO()
torch.save({"a": 1}, buffer)
def main():
    if dist.get_rank() != 0:
        return
    torch.save({"a": 1}, "checkpoint.pt")
main()
""",
    """
import torch
torch.save({"a": 1}, "checkpoint.pt")
""",
    """
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
def train(rank, world):
    first = True
    if world > 1:
        dist.init_process_group("nccl", rank=rank, world_size=world)
        first = rank == 0
    if first:
        torch.save({"a": 1}, "checkpoint.pt")
torch.save({"words": 1}, "vocabulary.pt")
if torch.cuda.device_count() > 1:
    mp.spawn(train, nprocs=torch.cuda.device_count(), args=(torch.cuda.device_count(),))
else:
    train(0, 1)
""",
    """
import torch
import torch.distributed as dist
from torch import nn
from mine import is_first
dist.init_process_group("nccl")
model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2).cuda())
first = False
for index, batch in enumerate(my_loader()):
    first = is_first()
    step(batch)
    if index % 100 == 0 and first:
        torch.save(model.state_dict(), "checkpoint.pt")
""",
    """
import socket, torch
import torch.distributed as dist
from torch import nn
hosts, rank = open("hosts.txt").read().split(), -1
for index, host in enumerate(hosts):
    if host == socket.gethostname():
        rank = index
dist.init_process_group("gloo", init_method="tcp://" + hosts[0] + ":1234", rank=rank, world_size=len(hosts))
model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
if rank == 0:
    torch.save(model.state_dict(), "checkpoint.pt")
""",
)

_WRITES = {
    "timm.utils.CheckpointSaver": 5,
    "torch.save": 1,
    "safetensors.torch.save_file": 1,
    "safetensors.torch.save_model": 1,
    ".save_pretrained": 0,
}
_NAMES = {
    "timm.utils.CheckpointSaver": "checkpoint_dir",
    "torch.save": "f",
    "safetensors.torch.save_file": "filename",
    "safetensors.torch.save_model": "filename",
    ".save_pretrained": "save_directory",
}


_STARTS = (
    "torch.multiprocessing.spawn",
    "torch.multiprocessing.spawn.spawn",
    "torch.multiprocessing.Process",
    "torch.multiprocessing.process.Process",
)


def check(context: Context) -> Iterator[Finding]:
    """Find writes that more than one rank gets to."""
    groups = makes_group(context.trace)
    if not groups or context.reading.made("accelerator") or context.reading.made("fabric"):
        return
    ranks = {name for g in groups for name in from_option(g.kwargs.get("rank"))}
    decided = any(not g.context.shadow for g in groups)
    for event in context.trace.calls(*_WRITES):
        path = event.argument(_WRITES[event.name], _NAMES[event.name])
        if path is None or event.context.shadow or not _main(event) or not _is_path(path) or carries_rank(path):
            continue
        if not any(_together(context, g, event) for g in groups):
            continue
        kind = rank_guard(event)
        if kind == "global" or (kind == "local" and not _checkpoint(event)):
            continue  # what is no checkpoint, such as a cache of the data, may be wanted on every node
        tests = [f for f in event.context.frames() if f.kind == "if"]
        if kind is None and any(may_ask_rank(f) or from_option(f.value) & ranks for f in tests):
            continue
        if kind == "local" and context.launch.nodes == 1:
            continue  # the only node there is
        if event.name == ".save_pretrained" and context.roles.of(event.receiver) != "model":
            continue
        yield _finding(context, event, kind is not None, decided, groups[0])


def _finding(context: Context, event: Event, local: bool, decided: bool, group: Event) -> Finding:
    who = "one process of every node" if local else "every rank"
    guard = "local rank" if local else "none"
    return context.finding(
        RULE,
        event,
        f"{who} writes this file: {'the guard tests the local rank' if local else 'no branch on the rank guards it'}, and the path does not name the rank",
        # On how many nodes it will run is not said: on one, the local rank is the rank.
        severity="info" if local and not context.launch.nodes else None,
        confidence="likely" if decided else "possible",
        evidence=[Evidence("guard on the rank", guard)],
        fix=Fix(
            title="write on global rank 0 only",
            instruction="guard the write with torch.distributed.get_rank() == 0",
            expected="one process writes the file",
        ),
        related=[(group, "the process group")],
    )


def _together(context: Context, group: Event, event: Event) -> bool:
    """Whether a process that writes may be one of several in the group.

    Not where the group is joined only by processes that the script starts and the write is outside them, and not
    where the writing process was told that it is rank 0: ``train(0, ...)`` beside ``spawn(train, ...)``.
    """
    starts = {id(e.node) for e in context.trace.calls(*_STARTS)}
    calls = [f for f in group.context.frames() if f.kind == "call"]
    started = next((f for f in calls if id(f.node) in starts), None)
    if started is not None and not event.context.within(started):
        return False
    rank = settle(group.kwargs.get("rank") or Known(None))
    told = isinstance(rank, Known) and rank.value == 0 and not rank.soft
    return not (told and calls and event.context.within(calls[-1]))


def _checkpoint(event: Event) -> bool:
    """Whether what is written holds the state of a model or optimizer."""
    if event.name != "torch.save":
        return True
    parts = provenance(event.argument(0, "obj"), 200)
    return any(isinstance(p, Obj) and (p.name in (".state_dict", ".parameters") or is_module(p)) for p in parts)


def _main(event: Event) -> bool:
    """Whether the script's own run gets here: not a function that nothing calls."""
    return list(event.context.frames())[-1].node is None


def _is_path(value: Value) -> bool:
    base = settle(value)
    if isinstance(base, Known):
        return isinstance(base.value, str)
    return not any(
        isinstance(p, Obj) and p.name in ("io.BytesIO", "builtins.open", "tempfile.NamedTemporaryFile")
        for p in provenance(base, 40)
    )
