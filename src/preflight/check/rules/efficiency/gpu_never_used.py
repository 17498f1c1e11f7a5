"""The GPU is never used.

## What it does
Looks for a training loop in a script that never moves anything to a GPU: no `.to(device)`, no `.cuda()`, no default device, no library that does it.

## Why
Networks and tensors are made on the CPU unless they are told otherwise: the run is billed for a GPU that idles.

## Fix
Move the network before the optimizer is made, and each batch in the loop: `.to("cuda")`.

## When to ignore
When the run is meant for the CPU.

## References
- PyTorch documentation, "CUDA semantics"
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.devices import named_device
from preflight.check.queries.steps import step_loops
from preflight.check.rule import Example, Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="gpu-never-used",
    code="EFF023",
    severity="info",
    confidence="likely",
    needs=("training_loop", "model", "complete"),
    layer="D",
    tags=("gpu",),
)

_LOOP = """
for x, y in data:
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
"""
_HEAD = "import torch\nfrom torch import nn\nmodel = nn.Linear(10, 2)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
BAD = (
    Example(_HEAD + _LOOP, gpu="h100"),
    Example("import torch, torchvision\ndef build():\n    return torchvision.models.resnet18()\nmodel = build()\n"
            "optimizer = torch.optim.Adam(model.parameters())\n" + _LOOP, gpu="a100"),
    "import argparse, torch\nparser = argparse.ArgumentParser()\nparser.add_argument('--lr', type=float, default=0.1)\nargs = parser.parse_args()\n"
    "class Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.a = torch.nn.Linear(3, 3)\n"
    "    def forward(self, x):\n        return self.a(x)\nmodel = Net().to(torch.device('cpu'))\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n" + _LOOP,
)  # fmt: skip
GOOD = (
    Example(_HEAD + "model.to(choose_device())\n" + _LOOP, gpu="h100"),
    Example("import torch\ntorch.set_default_device('cuda')\n" + _HEAD + _LOOP, gpu="h100"),
    Example(
        "import argparse, torch\nfrom torch import nn\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--gpus', default=[], nargs='+', type=int)\nargs = parser.parse_args()\nmodel = nn.Linear(10, 2)\n"
        "if len(args.gpus) >= 1:\n    model = model.cuda()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        + _LOOP,
        gpu="h100",
    ),
    Example(
        "import accelerate\naccelerator = accelerate.Accelerator()\n"
        + _HEAD
        + "model, optimizer = accelerator.prepare(model, optimizer)\n"
        + _LOOP,
        gpu="h100",
    ),
)


def check(context: Context) -> Iterator[Finding]:
    """Find training that stays on the CPU."""
    loops = step_loops(context)
    device = named_device(context.trace)
    if not loops or device is None or _moved_elsewhere(context):
        return
    gpu = context.gpu
    model = context.reading.models[0]
    told = f"nothing is moved to a GPU (device is {device or 'never named'}): the network trains on the CPU"
    yield context.finding(
        RULE,
        model,
        told + (f" while the {gpu.title} idles" if gpu is not None else ""),
        evidence=[Evidence("moves to a GPU", 0), Evidence("device", device or None)],
        related=[(loops[0].backwards[0], "the training loop")],
        fix=Fix(
            title="move the network and each batch to the GPU",
            instruction='model.to("cuda") before the optimizer is made, and batch.to("cuda") in the loop',
            expected="the GPU computes",
        ),
        severity="warning" if gpu is not None else None,
    )


def _moved_elsewhere(context: Context) -> bool:
    """Whether a move to a GPU stands where the defaults do not lead: ``if len(args.gpus) >= 1: model.cuda()``."""
    return any(
        isinstance(call.func, ast.Attribute) and call.func.attr == "cuda"
        for script in context.reading.scripts
        for call in script.nodes(ast.Call)
    )
