"""Gradients are never reduced between the ranks.

## What it does
Looks for a script that starts a process group, gives each rank its own shard of the data or starts the ranks itself, and trains, but neither wraps the model (DistributedDataParallel, FSDP, an engine) nor reduces gradients or parameters by a collective.

## Why
Without a reduction every rank trains its own copy, on its own shard where the data is split.
The copies drift apart, the saved one has seen 1/N of the data or cost N times the work, and nothing fails.

## Fix
Wrap the model: `DistributedDataParallel(model, device_ids=[local_rank])`.

## When to ignore
When the ranks are meant to be independent, as in a sweep, or when a library outside the repository reduces the gradients.

## References
- PyTorch documentation, torch.nn.parallel.DistributedDataParallel
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.evaluate.library.methods import is_module
from preflight.source.ranks import carries_rank, makes_group, may_ask_rank, rank_kind
from preflight.source.trace import Event, provenance
from preflight.source.training import TrainingLoop
from preflight.source.values import Obj, Value, options_of, plain
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="model-never-wrapped",
    code="DST002",
    severity="error",
    confidence="likely",
    needs=("training_loop", "optimizer", "model", "complete"),
    layer="D",
    tags=("distributed",),
)

_COPIES = """
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.utils.data import DataLoader
def train(rank, ranks):
    dist.init_process_group("nccl", rank=rank, world_size=ranks)
    torch.cuda.set_device(rank)
    model = nn.Linear(4, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader(dataset, 32, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
        optimizer.step()
    dist.destroy_process_group()
if __name__ == "__main__":
    mp.spawn(train, args=(4,), nprocs=4, join=True)
"""
BAD = (
    """
import os, torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler
dist.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
model = nn.Linear(4, 2).to(rank)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(dataset, 32, sampler=DistributedSampler(dataset))
for epoch in range(10):
    loader.sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
""",
    """
import argparse
import torch
import torch.multiprocessing as mp
import torch.nn as nn
import torch.utils.data as data
class Runner:
    def __init__(self, rank, args):
        torch.distributed.init_process_group("nccl", rank=rank, world_size=args.gpus)
        self.model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).cuda(rank)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=args.lr)
        sampler = data.distributed.DistributedSampler(dataset, num_replicas=args.gpus, rank=rank)
        self.loader = data.DataLoader(dataset, sampler=sampler)
    def train(self):
        for x, y in self.loader:
            self.optimizer.zero_grad()
            nn.functional.mse_loss(self.model(x), y).backward()
            self.optimizer.step()
def work(rank, args):
    Runner(rank, args).train()
p = argparse.ArgumentParser()
p.add_argument("--gpus", type=int, default=4)
p.add_argument("--lr", type=float, default=1e-3)
args = p.parse_args()
mp.spawn(work, args=(args,), nprocs=args.gpus)
""",
    """
import torch
from torch import distributed as D
from torch.utils.data import DataLoader, DistributedSampler as Shards
from torch.nn import Linear, functional as F
D.init_process_group(backend="gloo")
net = Linear(3, 1)
opt = torch.optim.Adam(net.parameters())
def update(x, y):
    opt.zero_grad()
    F.mse_loss(net(x), y).backward()
    opt.step()
for x, y in DataLoader(data, sampler=Shards(data)):
    update(x, y)
""",
    _COPIES,
    "from mine import warm_up_schedule\n"
    + _COPIES.replace("    for x", "    warm_up_schedule(optimizer, 10)\n    for x"),
    _COPIES.replace("4,), nprocs=4", "ranks,), nprocs=ranks").replace(
        "    mp.", "    ranks = torch.cuda.device_count()\n    mp."
    ),
)

GOOD = (
    BAD[0].replace(
        "optimizer = torch", "model = nn.parallel.DistributedDataParallel(model, device_ids=[rank])\noptimizer = torch"
    ),
    BAD[0].replace(
        "        optimizer.step()",
        "        for p in model.parameters():\n            dist.all_reduce(p.grad)\n        optimizer.step()",
    ),
    BAD[0].replace("optimizer = torch", "from engine import wrap\nmodel = wrap(model)\noptimizer = torch"),
    BAD[0].replace(", sampler=DistributedSampler(dataset)", ""),
    _COPIES.replace("nn.Linear(4, 2).cuda()", "nn.parallel.DistributedDataParallel(nn.Linear(4, 2).cuda())"),
    _COPIES.replace("        optimizer.step()", "        dist.all_reduce(model.weight.grad)\n        optimizer.step()"),
    _COPIES.replace("nprocs=4", "nprocs=1"),
    _COPIES.replace("for x, y in", "if rank:\n        return\n    for x, y in"),
    *(
        "from mine import averaged\n" + _COPIES.replace("optimizer.step", call + "\n        optimizer.step")
        for call in (
            "averaged(optimizer)",
            "averaged(list(model.parameters()))",
            "for p in model.parameters():\n            averaged(p.grad)",
        )
    ),
    "from mine import averaged\n"
    + _COPIES.replace("    for x", "    optimizer.register_step_pre_hook(averaged)\n    for x"),
    _COPIES.replace("    for x, y in", "    first = rank == 0\n    while first:\n     for x, y in"),
    _COPIES.replace("    dist.d", '    torch.save(model.state_dict(), f"member{rank}.pt")\n    dist.d'),
    _COPIES.replace("lr=0.1", "lr=0.1 / 2**rank"),
)

_KEEP = (
    "torch.optim.",
    "torch.utils.",
    "torch.nn.init",
    "torch.nn.utils.",
    "torch.save",
    "torch.load",
    "builtins.",
    "torch.cuda.",
    "copy.",
)
_QUIET = (
    "torch.distributed.init_process_group",
    "torch.distributed.destroy_process_group",
    "torch.distributed.is_available",
    "torch.distributed.is_initialized",
    "torch.distributed.get_rank",
    "torch.distributed.get_world_size",
    "torch.distributed.barrier",
    "torch.distributed.is_nccl_available",
    "torch.distributed.get_backend",
    "torch.distributed.is_torchelastic_launched",
)


def check(context: Context) -> Iterator[Finding]:
    """Find a sharded training whose gradients nothing reduces."""
    groups = [e for e in makes_group(context.trace) if not e.context.shadow]
    samplers = [s for s in context.reading.made("sampler") if s.name == "torch.utils.data.DistributedSampler"]
    started = [] if samplers else _started(context)
    if not groups or not (samplers or started) or _reduced(context):
        return
    for loop in context.reading.loops:
        if loop.frame.shadow or not loop.steps or any(context.roles.of(s.receiver) != "optimizer" for s in loop.steps):
            continue
        if any(_project_made(s) for s in loop.steps):
            continue
        if not _sharded(loop, samplers) if samplers else _some_ranks(loop) or _of_each_rank(context, loop):
            continue
        on = "on its own shard" if samplers else "a copy of its own"
        where: Obj | Event = samplers[0] if samplers else started[0]
        split = "the data is split between the ranks" if samplers else "the ranks are started"
        yield context.finding(
            RULE,
            loop.backwards[0],
            f"each rank trains {on}, but the model is not wrapped and no collective reduces the gradients: the copies drift apart",
            evidence=[
                Evidence("wrappers of the model (DDP, FSDP, engine)", 0),
                Evidence("collectives that could reduce gradients", 0),
            ],
            fix=Fix(
                title="wrap the model in DistributedDataParallel",
                instruction="model = DistributedDataParallel(model, device_ids=[local_rank]) after moving it to its device",
                expected="all ranks hold the same weights",
            ),
            related=[(groups[0], "the process group"), (where, split)],
        )
        return


def _started(context: Context) -> list[Event]:
    """Where the script itself starts several processes."""
    calls = context.trace.calls("torch.multiprocessing.spawn", "torch.multiprocessing.start_processes")
    return [
        e for e in calls if not e.context.shadow and (n := e.argument(2, "nprocs")) is not None and plain(n, 0) != 1
    ]


def _some_ranks(loop: TrainingLoop) -> bool:
    """Whether a test that asks for the rank, or may ask for it, decides who trains."""
    return any(
        (frame.kind == "if" and frame.taken is not True and (rank_kind(frame.value) is not None or may_ask_rank(frame)))
        or (isinstance(frame.node, ast.While) and rank_kind(frame.value) is not None)
        for frame in loop.frame.frames()
    )


_SAVES = {
    "torch.save": (1, "f"),
    "safetensors.torch.save_file": (1, "filename"),
    ".save_pretrained": (0, "save_directory"),
}


def _of_each_rank(context: Context, loop: TrainingLoop) -> bool:
    """Whether each rank is to have a model of its own: settings of its optimizer, or the files it goes to, name the rank."""
    files = [event.argument(*_SAVES[event.name]) for event in context.trace.calls(*_SAVES)]
    optimizers = [option for step in loop.steps for option in options_of(step.receiver) if isinstance(option, Obj)]
    settings = [value for one in optimizers for value in (*one.args[1:], *one.kwargs.values())]
    return any(carries_rank(value) for value in (*files, *settings))


_REDUCERS = (".all_reduce", ".register_post_accumulate_grad_hook", ".register_hook", ".register_step_pre_hook")


def _reduced(context: Context) -> bool:
    """Whether anything is there that reduces gradients, or that could."""
    for role in ("accelerator", "fabric", "engine", "trainer", "lightning_trainer"):
        if context.reading.made(role):
            return True
    if any(not is_module(m) for m in context.reading.models):
        return True  # what made it is not known, and may have wrapped it
    models = {id(m) for m in context.reading.models}
    for name, events in context.trace.by_name.items():
        if name in _QUIET:
            continue
        if name.startswith(
            ("torch.distributed.", "apex.parallel.", "fairscale.", "horovod.", "deepspeed.", "colossalai.", "megatron.")
        ) and name not in ("torch.distributed.init_process_group",):
            return True
        if "DataParallel" in name or name in _REDUCERS:
            return True
        if name.startswith((".", *_KEEP)) or name in ("()", "?"):
            continue
        if any(not e.inlined and _gets(context, e, models) for e in events):
            return True
    return False


def _gets(context: Context, event: Event, models: set[int]) -> bool:
    """Whether a call is given a model, its parameters or their gradients, or an optimizer for another thing than a schedule."""
    given = (*event.args, *event.kwargs.values())
    if any(id(o) in models for a in given for o in options_of(a, limit=4)):
        return True
    if context.roles.of(event.result) == "scheduler" or "schedule" in event.name.lower():
        return False
    return any(context.roles.of(a) == "optimizer" for a in given) or any(
        isinstance(part, Obj) and part.name in (".parameters", ".named_parameters")
        for a in given
        for part in provenance(a, 40)
    )


def _sharded(loop: TrainingLoop, samplers: list[Obj]) -> bool:
    wanted = {id(s) for s in samplers}
    frames = [loop.frame, *loop.outer] + ([loop.micro] if loop.micro is not None else [])
    return any(id(part) in wanted for frame in frames for part in provenance(frame.value, 300))


def _project_made(step: Event) -> bool:
    """An optimizer class of the project may reduce on its own."""
    value: Value | None = step.receiver
    return any(isinstance(o, Obj) and o.cls is not None for o in options_of(value))
