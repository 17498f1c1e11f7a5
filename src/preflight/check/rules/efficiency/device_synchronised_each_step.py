"""The device is synchronised or its cache emptied in each step.

## What it does
Looks for `torch.cuda.synchronize()`, `torch.cuda.empty_cache()` and `gc.collect()` in each pass of a training loop.

## Why
`synchronize()` makes the host wait until the GPU is idle, so nothing is queued when the next step begins.
`empty_cache()` synchronises too, and gives memory back to the driver that the next step asks for again: `cudaMalloc` and `cudaFree` go through the driver and wait for the device, which the cache is there to avoid.
It does not lower the peak, because the allocator empties its cache by itself before it reports that it is out of memory.

## Fix
Remove the call, or make it every few hundred steps.

## When to ignore
When the time of single steps is measured.

## References
- PyTorch documentation, "CUDA semantics", memory management
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Edit, Evidence, Fix, edits
from preflight.check.queries.steps import each_pass, step_loops
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.training import TrainingLoop
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="device-synchronised-each-step",
    code="EFF004",
    severity="warning",
    confidence="likely",
    needs=("training_loop",),
    layer="S",
    tags=("synchronisation", "memory"),
)

_HEAD = """
import torch
from torch import nn
model = nn.Linear(10, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
_STEP = """
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""
BAD = (
    _HEAD
    + """
for x, y in data:
    torch.cuda.empty_cache()
"""
    + _STEP,
    _HEAD
    + """
from torch import cuda
def clean():
    x = 1
    cuda.synchronize()
for x, y in data:
    clean()
"""
    + _STEP,
    _HEAD
    + """
import argparse, gc
parser = argparse.ArgumentParser()
parser.add_argument("--keep", action="store_true")
args = parser.parse_args()
for x, y in data:
    if not args.keep:
        gc.collect()
"""
    + _STEP,
)
GOOD = (
    _HEAD
    + """
import gc
for i, (x, y) in enumerate(data):
    if i % 1000 == 0:
        torch.cuda.empty_cache()
        gc.collect()
    try:
        model(x)
    except RuntimeError:
        torch.cuda.empty_cache()
"""
    + _STEP,
    _HEAD
    + """
import time
for x, y in data:
    torch.cuda.synchronize()
    start = time.perf_counter()
"""
    + _STEP
    + """
    torch.cuda.synchronize()
    print(time.perf_counter() - start)
""",
)

_CALLS = {
    "torch.cuda.synchronize": "makes the host wait until the GPU is idle",
    "torch.accelerator.synchronize": "makes the host wait until the device is idle",
    "torch.cuda.empty_cache": "synchronises and gives memory back that the next step asks for again",
    "torch.accelerator.empty_cache": "synchronises and gives memory back that the next step asks for again",
    "torch.cuda.ipc_collect": "walks all shared memory",
    "gc.collect": "walks all objects of the process while the GPU waits",
}
_CLOCKS = (
    "time.time",
    "time.perf_counter",
    "time.monotonic",
    "time.perf_counter_ns",
    "timeit.default_timer",
    "torch.cuda.Event",
    ".elapsed_time",
)


def check(context: Context) -> Iterator[Finding]:
    """Find such calls in each pass."""
    for loop in step_loops(context):
        for event in context.trace.calls(*_CALLS):
            if not event.context.within(loop.frame) or not each_pass(event.context, loop.frame):
                continue
            if event.name.endswith("synchronize") and _timed(context, loop):
                continue
            edit = _remove(context, event)
            yield context.finding(
                RULE,
                event,
                f"{event.name}() in each step {_CALLS[event.name]}",
                evidence=[Evidence("called", "in each step")],
                fix=Fix(
                    title="remove the call from the loop",
                    safe=False,
                    edits=edits(edit) if edit is not None else (),
                    instruction="remove the call, or make it every few hundred steps",
                    expected="the host queues the next step while the GPU works on this one",
                ),
            )


def _timed(context: Context, loop: TrainingLoop) -> bool:
    return any(event.context.within(loop.frame) for event in context.trace.calls(*_CLOCKS))


def _remove(context: Context, event: Event) -> Edit | None:
    """Take the statement out, where its block has others."""
    statement = context.statement(event.script, event.node)
    if not isinstance(statement, ast.Expr) or statement.value is not event.node:
        return None
    for node in ast.walk(event.script.tree):
        for block in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if isinstance(block, list) and statement in block:
                return (
                    context.replace((event.script, statement), "pass") if len(block) == 1 else _line(event, statement)
                )
    return None


def _line(event: Event, statement: ast.stmt) -> Edit | None:
    script = event.script
    if script.cells or statement.end_lineno is None:
        return None
    text = "\n".join(script.lines[statement.lineno - 1 : statement.end_lineno]).strip()
    if text != (script.segment(statement) or ""):
        return None
    return Edit(script.path, statement.lineno, 1, statement.end_lineno + 1, 1, "")
