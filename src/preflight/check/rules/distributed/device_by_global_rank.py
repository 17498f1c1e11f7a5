"""Device chosen by the global rank, or by nothing.

## What it does
Looks for `torch.cuda.set_device(rank)`, `device_ids=[rank]`, `.to(rank)` and the like where `rank` is the global rank without a modulo; and for a script that starts a process group and moves its model to `"cuda"` without ever binding a process to a device.

## Why
On the second node of 8 GPUs the ranks are 8 to 15, and `cuda:8` does not exist: the run works on one node and fails on two.
Without any binding all processes of a node use `cuda:0`: it runs out of memory, or NCCL reports a duplicate GPU.

## Fix
Bind each process to its local rank: `torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))`.

## When to ignore
When the run never leaves one node: there the global rank is the local rank.

## References
- PyTorch documentation, torchrun, "Environment Variables"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.ranks import makes_group, rank_sources
from preflight.source.trace import Event, parents_of
from preflight.source.values import Known, Obj, Seq, Unknown, Value, options_of, plain, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="device-by-global-rank",
    code="DST007",
    severity="warning",
    confidence="likely",
    layer="S",
    tags=("distributed",),
)

BAD = (
    """
import torch
import torch.distributed as dist
dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(rank)
""",
    """
import os, torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
def setup(model, device):
    return DDP(model, device_ids=[device])
torch.distributed.init_process_group("nccl")
global_rank = int(os.environ["RANK"])
model = setup(nn.Linear(4, 2).to("cuda:0"), global_rank)
""",
    """
import torch, argparse
import torch.nn as nn
from torch import distributed as D
class Runner:
    def __init__(self):
        D.init_process_group("nccl")
        self.device = torch.device(f"cuda:{D.get_rank()}")
        self.model = nn.Linear(4, 2).to(self.device)
Runner()
""",
    """
import torch
from torch import nn
torch.distributed.init_process_group("nccl")
model = nn.Linear(4, 2).cuda()
model = nn.parallel.DistributedDataParallel(model)
""",
)

GOOD = (
    """
import torch
import torch.distributed as dist
dist.init_process_group("nccl")
inside, _ = dist.new_subgroups()
def local_rank():
    return dist.get_rank(group=inside) if dist.is_initialized() else 0
torch.cuda.set_device(local_rank())
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2).cuda(), device_ids=[local_rank()])
""",
    """
import os, torch
import torch.distributed as dist
dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(rank % torch.cuda.device_count())
local = int(os.environ.get("LOCAL_RANK", rank))
model = torch.nn.Linear(4, 2).to(local)
""",
    """
import torch
import torch.multiprocessing as mp
def work(rank, world):
    torch.distributed.init_process_group("nccl", rank=rank, world_size=world)
    torch.cuda.set_device(torch.distributed.get_rank())
    model = torch.nn.Linear(4, 2).cuda()
mp.spawn(work, args=(4,), nprocs=4)
""",
    """
import os, torch
from torch import nn
torch.distributed.init_process_group("nccl")
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2).cuda())
""",
    """
import torch
from torch import nn
torch.distributed.init_process_group("gloo")
model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
""",
)

_GLOBAL = (
    "torch.distributed.get_rank",
    "RANK",
    "SLURM_PROCID",
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
    "deepspeed.comm.get_rank",
)
_BINDS = (
    "torch.cuda.set_device",
    ".set_device",
    "torch.cuda.device",
    "torch.accelerator.set_device_index",
    "torch.npu.set_device",
    "torch.xpu.set_device",
    ".set_device_index",
)


def check(context: Context) -> Iterator[Finding]:
    """Find devices by global rank, then processes without a device."""
    groups = makes_group(context.trace)
    single = any(_from_spawn(e.kwargs.get("rank")) for e in groups)
    found = False
    for event, value in [] if single else _devices(context):
        if _global(value):
            found = True
            yield context.finding(
                RULE,
                event,
                "the device is chosen by the global rank: on the second node of 8 GPUs rank 8 asks for cuda:8, which does not exist",
                evidence=[
                    Evidence(
                        "device index",
                        "global rank",
                        arithmetic="node 1, local rank 0 of 8 GPUs per node: global rank 8",
                    )
                ],
                fix=Fix(
                    title="use the local rank for devices",
                    instruction='use int(os.environ["LOCAL_RANK"]), or the global rank modulo torch.cuda.device_count()',
                    expected="the script runs on more than one node",
                ),
            )
            return
    if not found and groups:
        yield from _unbound(context, groups)


def _devices(context: Context) -> Iterator[tuple[Event, Value]]:
    for event in context.trace.calls(
        "torch.cuda.set_device", "torch.nn.parallel.DistributedDataParallel", "torch.device", ".cuda", ".to"
    ):
        if event.name.endswith("DataParallel"):
            ids = settle(event.kwargs["device_ids"]) if "device_ids" in event.kwargs else None
            if isinstance(ids, Seq) and len(ids.items) == 1:
                yield event, ids.items[0]
        elif event.name == "torch.device":
            yield event, event.args[-1] if event.args else Known(None)
        elif event.args and (event.name == "torch.cuda.set_device" or context.roles.of(event.receiver) == "model"):
            yield event, event.args[0]


def _global(value: Value | None) -> bool:
    """Whether a device index is the global rank itself, and nothing else that it can be."""
    base = settle(value) if value is not None else None
    if isinstance(base, Obj) and base.name == "torch.device":
        return False  # reported where the device is made
    queue: list[Value] = [value] if value is not None else []
    seen: set[int] = set()
    sources = 0
    while queue and len(seen) < 40:
        part = queue.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, Obj) and (part.name in ("%", "-") or part.name == "torch.cuda.device_count"):
            return False
        if isinstance(part, Unknown) and _reduced(part):
            return False
        if (
            isinstance(part, Obj)
            and part.kind in ("call", "item")
            and not part.name.startswith(("builtins.", ".format"))
        ):
            if not any(True for _ in rank_sources(part)):
                continue
            name = str(plain(part.args[0])) if part.name == "os.environ" and part.args else part.name
            if name not in _GLOBAL:
                return False
            sources += 1
            continue
        queue.extend(parents_of(part))
    return sources > 0


def _reduced(part: Unknown) -> bool:
    """Whether a number that is not known was written as ``rank % gpus`` or ``rank - first``."""
    operator = getattr(part.site.node, "op", None) if part.site is not None else None
    return type(operator).__name__ in ("Mod", "Sub")


def _from_spawn(value: Value | None) -> bool:
    return any(isinstance(o, Obj) and o.name == "torch.multiprocessing.spawn" for o in options_of(value))


def _unbound(context: Context, groups: list[Event]) -> Iterator[Finding]:
    first = next((g for g in groups if not g.context.shadow), None)
    if (
        first is None
        or not context.reading.complete
        or context.trace.calls(*_BINDS)
        or first.name != "torch.distributed.init_process_group"
    ):
        return
    if (
        context.value(first.argument(0, "backend")) not in (None, "nccl")
        or "CUDA_VISIBLE_DEVICES" in context.reading.script.text
    ):
        return
    if context.reading.made("engine") or context.reading.made("accelerator") or context.reading.made("fabric"):
        return
    for event in context.trace.calls("torch.nn.parallel.DistributedDataParallel"):
        if event.context.shadow or "device_ids" in event.kwargs or len(event.args) > 1:
            continue
        move = next(
            (m for m in context.trace.calls(".cuda", ".to") if _bare(context, m) and not m.context.shadow), None
        )
        if move is None or any(_indexed(context, e) for e in context.trace.calls("torch.device", ".to", ".cuda")):
            continue
        yield context.finding(
            RULE,
            move,
            "no process is bound to a device: all ranks of a node move their model to cuda:0",
            severity="error",
            evidence=[
                Evidence("calls that bind a process to its device", 0),
                Evidence("device_ids of DistributedDataParallel", None),
            ],
            fix=Fix(
                title="bind each process to its local rank",
                instruction='call torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) before the model is moved',
                expected="each process uses its own GPU",
            ),
            related=[(first, "the process group"), (event, "the model is wrapped without device_ids")],
        )
        return


def _bare(context: Context, event: Event) -> bool:
    if context.roles.of(event.receiver) != "model":
        return False
    if event.name == ".cuda":
        return not event.args and not event.kwargs
    return bool(event.args) and context.value(event.args[0]) == "cuda"


def _indexed(context: Context, event: Event) -> bool:
    """Whether a device with an index, or one that is not known, is used anywhere."""
    if event.name == "torch.device":
        return len(event.args) > 1 or context.value(event.argument(0, "type")) not in ("cuda", "cpu")
    for value in event.args[:1]:
        base = settle(value)
        if isinstance(base, Known) and isinstance(base.value, (str, int)) and base.value not in ("cuda", "cpu"):
            return True
        if isinstance(base, Unknown):
            return True
    return False
