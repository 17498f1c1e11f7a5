"""The peak leaves no margin on the GPU.

## What it does
Compares the estimated peak, with the driver's context and the allocator's fragmentation, with the memory of the GPU, and speaks when less than a tenth is left.
Nothing is said where the estimate is that of a run that trains all parameters and some may be frozen: it is an upper bound.

## Why
The allocator cannot use every byte: freed blocks are split, and a large tensor needs a block in one piece.
Runs planned to the last gigabyte fail after hours, when one batch is a little larger or the cache is a little more fragmented.

## Fix
A somewhat smaller batch per GPU, `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`, or one of the changes that save memory.

## When to ignore
When the same configuration has run before on the same GPU and the same versions.

## References
- PyTorch documentation, "CUDA semantics: memory management"
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.memory_limits import place_of_model
from preflight.check.rule import Example, Rule
from preflight.check.verdict import ALL_TRAINED
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.quantity import format_bytes

RULE = Rule(
    name="memory-margin-missing",
    code="MEM006",
    severity="warning",
    confidence="likely",
    needs=("capacity", "memory"),
    layer="V",
    tags=("memory",),
)

_HEAD = """
import argparse
import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
from torchvision.models import resnet50
"""
_TAIL = """
loader = DataLoader(data, batch_size=size, shuffle=True, num_workers=8)
for x, y in loader:
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
    optimizer.step()
"""
_DATA = """
model = resnet50().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
data = datasets.ImageFolder("train", transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()]))
"""

BAD = (
    Example(_HEAD + _DATA + "size = 142" + _TAIL, gpu="v100"),
    Example(
        _HEAD
        + _DATA
        + "parser = argparse.ArgumentParser()\nparser.add_argument('-b', type=int, default=142)\nsize = parser.parse_args().b"
        + _TAIL,
        gpu="v100",
    ),
    Example(
        _HEAD + _DATA + "def per_gpu(total, gpus):\n    return total // gpus\nsize = per_gpu(568, 4)" + _TAIL,
        gpu="Tesla V100-SXM2-16GB",
    ),
)
GOOD = (
    Example(_HEAD + _DATA + "size = 64" + _TAIL, gpu="v100"),
    Example(_HEAD + _DATA + "size = 142" + _TAIL, gpu="a100"),
)


def check(context: Context) -> Iterator[Finding]:
    """Find runs that fit, if at all, with less than a tenth to spare."""
    memory, capacity = context.memory, context.capacity_bytes
    if memory is None or memory.device_bytes is None or capacity is None or memory.fits == "no":
        return
    if memory.assumed == ALL_TRAINED:
        return  # an upper bound: most of what it counts may be frozen
    needed = memory.device_bytes.mid
    if needed <= 0.9 * capacity:
        return
    run = context.run
    smaller = max(int((run.micro_batch or 1) * 0.8), 1)
    chance = f"; the chance that it fits is about {100 * memory.p_fit:.0f} %" if memory.p_fit is not None else ""
    fix = Fix(
        title="set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or lower the batch per GPU",
        instruction=f"a batch of {smaller} leaves a margin"
        if smaller < (run.micro_batch or 1)
        else "save memory with gradient checkpointing or bf16",
        expected=_after(context, smaller),
    )
    yield context.finding(
        RULE,
        place_of_model(context),
        f"the run needs about {format_bytes(needed)} of {format_bytes(capacity)}: less than a tenth is left{chance}",
        evidence=[
            Evidence(
                "needed at the peak",
                round(needed),
                "bytes",
                "derived",
                f"{100 * needed / capacity:.0f} % of {format_bytes(capacity)}",
            )
        ],
        fix=fix,
    )


def _after(context: Context, smaller: int) -> str:
    from preflight.cost.memory import estimate_memory

    assert context.model is not None
    run = msgspec.structs.replace(context.run, micro_batch=smaller)
    then = estimate_memory(context.model, run, context.parallel, context.gpu, context.capacity_bytes)
    return (
        f"needs about {format_bytes(then.device_bytes.mid)} with a batch of {smaller}"
        if then.device_bytes is not None
        else "a margin"
    )
