"""The model is not compiled.

## What it does
Notes that a network is trained on a GPU without `torch.compile` or another compiler.

## Why
Compiling fuses the small operations between matrix products, so that their operands are read from device memory once instead of once per operation, and takes the Python of each step away.
The authors of PyTorch 2 report training 1.41 times as fast in the geometric mean over 180 models on an A100.

## Fix
`model = torch.compile(model)`.

## When to ignore
When shapes change in each step, when the network's Python cannot be traced, or when a run is shorter than compiling takes.

## References
- Ansel et al., "PyTorch 2", ASPLOS 2024
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.steps import step_loops, uses_gpu
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="model-not-compiled",
    code="EFF013",
    severity="info",
    confidence="likely",
    needs=("training_loop", "model", "complete"),
    layer="C",
    persona="pedantic",
    tags=("compile",),
)

_LOOP = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
"""
BAD = (
    "import torch\nmodel = torch.nn.Linear(10, 2).cuda()\n" + _LOOP,
    "import torch\nfrom torchvision.models import resnet50 as build\nmodel = build().to(torch.device('cuda'))\n"
    + _LOOP,
    "import argparse, torch\nparser = argparse.ArgumentParser()\nparser.add_argument('--compile', action='store_true')\n"
    "args = parser.parse_args()\nmodel = torch.nn.Linear(10, 2).to('cuda')\nif args.compile:\n    model = torch.compile(model)\n"
    + _LOOP,
)
GOOD = (
    "import torch\nmodel = torch.compile(torch.nn.Linear(10, 2).cuda())\n" + _LOOP,
    "import torch\nmodel = torch.nn.Linear(10, 2).cuda()\nmodel.compile()\n" + _LOOP,
)

_COMPILERS = (
    "torch.compile", "@torch.compile", ".compile", "torch.jit.script", "torch.jit.trace", "@torch.jit.script", "thunder.jit",
    "lightning.pytorch.Trainer", "deepspeed.initialize", "torch.cuda.make_graphed_callables", "torch.cuda.graph", "torch.cuda.CUDAGraph",
)  # fmt: skip


def check(context: Context) -> Iterator[Finding]:
    """Note training without a compiler."""
    if not uses_gpu(context) or any(not e.context.shadow for e in context.trace.calls(*_COMPILERS)):
        return
    loops = step_loops(context)
    models = [m for m in context.reading.models if m.context is None or not m.context.shadow]
    if not loops or not models:
        return
    yield context.finding(
        RULE,
        models[0],
        "the network is trained without torch.compile: the small operations between matrix products each read and write device memory",
        evidence=[Evidence("torch.compile on the defaults' path", False)],
        fix=Fix(
            title="try torch.compile",
            instruction="model = torch.compile(model), and compare the time of a step",
            expected="1.41 times as fast in the geometric mean over 180 models on an A100 (Ansel et al., 2024)",
        ),
    )
