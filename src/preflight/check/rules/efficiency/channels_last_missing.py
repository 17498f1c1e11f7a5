"""Convolutions in mixed precision use the slow memory layout.

## What it does
Looks for a network of 2-d convolutions that trains under autocast or in half precision without `channels_last`.

## Why
The tensor-core kernels of cuDNN work on channels-last data.
For data in the default layout they are preceded and followed by transposes; NVIDIA and PyTorch report training 22 % faster and more for ResNet-50 with autocast and channels-last.

## Fix
`model.to(memory_format=torch.channels_last)`, and the same for the input batch.

## When to ignore
When most of the time goes into other layers, or the network reshapes between convolutions.

## References
- PyTorch tutorials, "Channels Last Memory Format in PyTorch"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.steps import step_loops, uses_gpu
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="channels-last-missing",
    code="EFF018",
    severity="info",
    confidence="likely",
    needs=("training_loop", "model", "complete"),
    layer="C",
    persona="pedantic",
    tags=("layout",),
)

_LOOP = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(x.cuda()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
BAD = (
    "import torch, torchvision\nmodel = torchvision.models.resnet50().cuda()\n" + _LOOP,
    "import torch\nfrom torch.nn import Conv2d, Linear, Sequential\ndef build():\n"
    "    return Sequential(Conv2d(3, 64, 3), Conv2d(64, 64, 3), Conv2d(64, 64, 3), Conv2d(64, 10, 3))\nmodel = build().to('cuda')\n"
    + _LOOP,
    "import argparse, timm, torch\nparser = argparse.ArgumentParser()\nparser.add_argument('--arch', default='resnet50')\n"
    "args = parser.parse_args()\nmodel = timm.create_model(args.arch).cuda()\n" + _LOOP,
)
GOOD = (
    "import torch, torchvision\nmodel = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)\n"
    + _LOOP,
    "import timm, torch\nmodel = timm.create_model('vit_base_patch16_224').cuda()\n" + _LOOP,
)

_CONVOLUTIONAL = (
    "resnet",
    "resnext",
    "regnet",
    "efficientnet",
    "mobilenet",
    "densenet",
    "vgg",
    "convnext",
    "wide_resnet",
    "inception",
    "nfnet",
)
_ENOUGH = 4


def check(context: Context) -> Iterator[Finding]:
    """Find convolutional networks in mixed precision and default layout."""
    loops = step_loops(context)
    mixed = [
        e
        for e in context.trace.calls("torch.autocast", "torch.cuda.amp.autocast", ".half", ".bfloat16")
        if not e.context.shadow
    ]
    if (
        not loops
        or not mixed
        or not uses_gpu(context)
        or any("memory_format" in e.kwargs for e in context.trace.events)
    ):
        return
    if any(context.value(e.kwargs.get("enabled"), True) is False for e in mixed):
        return
    for model in context.reading.models:
        name = model.name.rpartition(".")[2].lower()
        if model.name.startswith("timm."):
            given = context.value(model.argument(0, "model_name"))
            name = given.lower() if isinstance(given, str) else ""
        convolutions = (
            len(context.trace.calls("torch.nn.Conv2d")) if model.cls is not None or name == "sequential" else 0
        )
        if not name.startswith(_CONVOLUTIONAL) and convolutions < _ENOUGH:
            continue
        yield context.finding(
            RULE,
            model,
            "a convolutional network trains in mixed precision in the default layout: tensor-core kernels transpose its data before and after",
            evidence=[
                Evidence("memory format", "contiguous", None, "derived", "PyTorch's default"),
                Evidence("mixed precision", True),
            ],
            related=[(mixed[0], "mixed precision begins here")],
            fix=Fix(
                title="use the channels-last layout",
                instruction="model.to(memory_format=torch.channels_last) and batch.to(memory_format=torch.channels_last)",
                expected="fewer transposes around convolutions",
            ),
        )
        return
