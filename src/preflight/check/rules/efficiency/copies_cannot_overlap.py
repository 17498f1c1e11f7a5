"""Copies to the GPU cannot overlap with computing.

## What it does
Looks at the copies of batches to the GPU in a training loop: they overlap only where the loader pins memory and the copy is asked to be asynchronous.

## Why
From pageable memory CUDA first copies into a pinned buffer of its own, at about half the speed of the link, and the host waits.
`non_blocking=True` without pinned memory does nothing; pinned memory without `non_blocking=True` still makes the host wait for the copy.

## Fix
Pass `pin_memory=True` to the loader and `non_blocking=True` to the copy.

## When to ignore
When the batches are small, or when the host has little memory to spare: pinned memory cannot be swapped out.

## References
- PyTorch tutorials, "A guide on good usage of non_blocking and pin_memory() in PyTorch"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.loaders import TORCH, set_argument, setting, source_loaders
from preflight.check.queries.steps import moves_to_gpu, step_loops
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import Obj, Value, plain
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="copies-cannot-overlap",
    code="EFF003",
    severity="info",
    confidence="likely",
    needs=("training_loop", "loader"),
    layer="D",
    tags=("data", "gpu"),
)

_STEP = """
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""
_HEAD = """
import torch
from torch.utils.data import DataLoader
model = torch.nn.Linear(10, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
BAD = (
    _HEAD
    + """
for x, y in DataLoader(data, batch_size=8, shuffle=True, pin_memory=True):
    x, y = x.cuda(), y.cuda()
"""
    + _STEP,
    _HEAD
    + """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
args = parser.parse_args()
def to_device(batch):
    return [part.to(args.device, non_blocking=True) for part in batch]
for batch in DataLoader(data, batch_size=8, shuffle=True, num_workers=2):
    x, y = to_device(batch)
"""
    + _STEP,
    _HEAD
    + """
from torch.utils import data as tud
class Data:
    def __init__(self):
        self.loader = tud.DataLoader(rows, 4, True)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
for i, (x, y) in enumerate(Data().loader):
    x = x.to(device)
    y = y.to(device)
"""
    + _STEP,
)
GOOD = (
    _HEAD
    + """
for x, y in DataLoader(data, batch_size=8, shuffle=True, pin_memory=True):
    x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
"""
    + _STEP,
    _HEAD
    + """
device = torch.device("cpu")
for x, y in DataLoader(data, batch_size=8, shuffle=True):
    x, y = x.to(device), y.to(torch.long)
"""
    + _STEP,
    _HEAD
    + """
for x, y in DataLoader(data, batch_size=8, shuffle=True, pin_memory=True):
    x, y = x.cuda(None, True), y.to("cuda", torch.long, True)
"""
    + _STEP,
)


def check(context: Context) -> Iterator[Finding]:
    """Find copies of batches that block, or that come from pageable memory."""
    for loop in step_loops(context):
        copies: dict[int, list[Event]] = {}
        loaders: dict[int, Obj] = {}
        for event in loop.events:
            if event.name not in (".to", ".cuda") or moves_to_gpu(event) is not True:
                continue
            sources = source_loaders(context, event.receiver)
            if len(sources) == 1 and sources[0].name == TORCH and sources[0].kind == "call":
                loaders[id(sources[0])] = sources[0]
                copies.setdefault(id(sources[0]), []).append(event)
        for key, events in copies.items():
            found = _judge(context, loaders[key], events)
            if found is not None:
                yield found


def _judge(context: Context, loader: Obj, events: list[Event]) -> Finding | None:
    pinned = setting(loader, "pin_memory")
    asynchronous = [context.value(_non_blocking(e), False) for e in events]
    if pinned not in (True, False) or any(a not in (True, False) for a in asynchronous):
        return None
    if pinned and all(asynchronous):
        return None
    blocking = _once([e for e, a in zip(events, asynchronous, strict=True) if not a])
    if pinned:
        told = "the loader pins memory, but the copy to the GPU blocks the host (non_blocking is not set), so it cannot overlap with computing"
    elif all(asynchronous):
        told = "non_blocking=True has no effect on batches in pageable memory (pin_memory is off): the copy blocks the host"
    else:
        told = "batches are copied to the GPU from pageable memory and the host waits for each copy (pin_memory and non_blocking are off)"
    changes = [context.add_argument(e, "non_blocking=True") for e in blocking if _non_blocking(e) is None]
    if not pinned:
        changes.append(set_argument(context, loader, "pin_memory", "True"))
    return context.finding(
        RULE,
        blocking[0] if blocking else events[0],
        told,
        evidence=[Evidence("pin_memory", bool(pinned)), Evidence("non_blocking", all(asynchronous))],
        related=[(loader, "the loader")],
        fix=Fix(
            title="pin memory and copy asynchronously",
            safe=True,
            edits=edits(*changes),
            instruction="pass pin_memory=True to the loader and non_blocking=True to the copies",
            expected="the copy of a batch overlaps with computing",
        ),
    )


def _non_blocking(copy: Event) -> Value | None:
    """What a copy is told of waiting: by name, or as the first truth value behind device and type."""
    behind = (a for a in copy.args[1:] if isinstance(plain(a), bool))
    return copy.kwargs.get("non_blocking") or next(behind, None)


def _once(events: list[Event]) -> list[Event]:
    seen: set[int] = set()
    result = []
    for event in events:
        if id(event.node) not in seen:
            seen.add(id(event.node))
            result.append(event)
    return result
