"""A tensor is built on the CPU and then moved.

## What it does
Looks for `torch.zeros(...).to(device)` and its kin in each training step: a factory whose result goes straight to the GPU.

## Why
The tensor is written by the CPU and copied from pageable memory, for which the host waits.
With `device=` the GPU fills it itself, and the call only queues a kernel.

## Fix
Pass `device=device` to the factory.

## When to ignore
When the random numbers of the CPU are needed: the GPU's generator gives others for the same seed.

## References
- PyTorch documentation, "Performance tuning guide": "Create tensors directly on the target device"
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Edit, Evidence, Fix, edits
from preflight.check.queries.steps import each_pass, moves_to_gpu, step_loops
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import Obj, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="tensor-built-on-host",
    code="EFF008",
    severity="info",
    confidence="likely",
    needs=("training_loop",),
    layer="S",
    tags=("gpu",),
)

_HEAD = """
import torch
from torch import nn
device = torch.device("cuda")
model = nn.Linear(10, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
_STEP = """
    optimizer.zero_grad()
    loss = model(x + noise).mean()
    loss.backward()
    optimizer.step()
"""
BAD = (
    _HEAD
    + """
for x, y in data:
    noise = torch.zeros(8, 10).to(device)
"""
    + _STEP,
    _HEAD
    + """
from torch import randn
def draw(n):
    return randn(n, 10).cuda()
for x, y in data:
    noise = draw(len(x))
"""
    + _STEP,
    _HEAD
    + """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda:0")
args = parser.parse_args()
class Noise:
    def __call__(self, x):
        return torch.ones(x.shape, dtype=torch.float32).to(args.device)
noisy = Noise()
for x, y in data:
    noise = noisy(x)
"""
    + _STEP,
)
GOOD = (
    _HEAD
    + """
fixed = torch.randn(8, 10).to(device)
for i, (x, y) in enumerate(data):
    noise = torch.zeros(8, 10, device=device).to(torch.float16)
    if i % 100 == 0:
        noise = torch.zeros(8, 10).to(device)
"""
    + _STEP,
    _HEAD
    + """
for x, y in data:
    noise = torch.tensor([len(s) for s in x]).to(device)
"""
    + _STEP,
    _HEAD
    + """
mean, spread = torch.zeros(8, 10), torch.full((8, 10), 0.5)
for x, y in data:
    noise = torch.normal(mean, spread).to(device) * torch.bernoulli(spread).to(device)
"""
    + _STEP,
)

_FIXED = ("zeros", "ones", "full", "empty", "eye", "arange", "linspace")
_RANDOM = ("rand", "randn", "randint", "randperm", "normal")
_FACTORIES = frozenset(f"torch.{n}" for n in (*_FIXED, *_RANDOM))


def check(context: Context) -> Iterator[Finding]:
    """Find factories whose result is moved at once."""
    for event in context.trace.calls(".to", ".cuda"):
        made = settle(event.receiver) if event.receiver is not None else None
        if not isinstance(made, Obj) or made.name not in _FACTORIES or "device" in made.kwargs or made.kind != "call":
            continue
        if made.name == "torch.normal" and len(made.args) < 3 and "size" not in made.kwargs:
            continue  # it draws for tensors that are there, on their device
        if moves_to_gpu(event) is not True or not any(
            event.context.within(loop.frame) and each_pass(event.context, loop.frame) for loop in step_loops(context)
        ):
            continue
        fixed = made.name.rpartition(".")[2] in _FIXED
        edit = _edit(context, event, made)
        yield context.finding(
            RULE,
            event,
            f"{made.name} fills a tensor on the CPU in each step and copies it to the GPU, for which the host waits",
            evidence=[Evidence("built by", made.name), Evidence("device", "cpu")],
            fix=Fix(
                title="build the tensor on the GPU",
                safe=fixed,
                edits=edits(edit) if edit is not None else (),
                instruction="pass device= to the factory instead of moving its result",
                expected="no copy and no wait",
            ),
        )


def _edit(context: Context, event: Event, made: Obj) -> Edit | None:
    """``factory(a).to(device)`` becomes ``factory(a, device=device)``."""
    node = event.node
    if (
        not isinstance(node, ast.Call)
        or not isinstance(node.func, ast.Attribute)
        or not isinstance(node.func.value, ast.Call)
    ):
        return None
    inner = node.func.value
    if made.site is None or made.site.node is not inner or node.keywords or len(node.args) > 1 or not inner.args:
        return None
    device = event.script.segment(node.args[0]) if node.args else '"cuda"'
    text = event.script.segment(inner)
    if not text.endswith(")") or text[:-1].rstrip().endswith(","):
        return None
    return context.replace(event, f"{text[:-1]}, device={device})")
