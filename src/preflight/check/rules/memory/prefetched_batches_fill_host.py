"""Batches that workers hold ready fill the memory of the host.

## What it does
Multiplies workers x prefetch_factor x batch x bytes of a sample x ranks per node, where the size of a sample is known, and speaks from 8 GB on.

## Why
Every worker keeps `prefetch_factor` finished batches (2 by default) in shared memory, so that 8 ranks with 16 workers hold 256 batches.
Images of 3 x 224 x 224 in fp32 take 602,112 bytes each: batches of 256 make that 39 GB in `/dev/shm`.
A container has 64 MB there unless it is started with more, and then a worker dies with a bus error.

## Fix
Use fewer workers per rank, a smaller `prefetch_factor`, or hand images on as uint8 and convert them on the GPU (a quarter of the bytes).

## When to ignore
When the node has the memory; Linux gives half of it to `/dev/shm`.

## References
- PyTorch documentation, `torch.utils.data.DataLoader`: prefetch_factor
- Docker documentation, `docker run --shm-size`: 64 MB by default
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.loaders import UNKNOWN, dataset_of, setting, training_loaders
from preflight.check.rule import Example, Rule
from preflight.source.trace import provenance
from preflight.source.values import Known, Obj, Value, plain, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="prefetched-batches-fill-host",
    code="MEM025",
    severity="info",
    confidence="likely",
    needs=("loader",),
    layer="C",
    tags=("memory", "data"),
)

_LOOP = """
model = torch.nn.Conv2d(3, 2, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
"""
_IMAGES = """
import argparse, torch
from torchvision import datasets, transforms as T
parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=%d)
parser.add_argument("--batch", type=int, default=256)
args = parser.parse_args()
steps = T.Compose([T.RandomResizedCrop(%d), T.ToTensor()])
data = datasets.ImageFolder("train", steps)
"""
BAD = (
    Example(
        _IMAGES % (16, 224)
        + "loader = torch.utils.data.DataLoader(data, args.batch, True, num_workers=args.workers)\n"
        + _LOOP,
        launch="torchrun --nproc_per_node 8 train.py",
    ),
    _IMAGES % (32, 512)
    + """
from torch.utils.data import DataLoader as Loader
def feed(data):
    return Loader(data, batch_size=args.batch, num_workers=args.workers, prefetch_factor=4)
loader = feed(data)
"""
    + _LOOP,
    Example(
        _IMAGES % (64, 384)
        + "loader = torch.utils.data.DataLoader(dataset=data, batch_size=args.batch, num_workers=args.workers, shuffle=True)\n"
        + _LOOP
    ),
)
GOOD = (
    _IMAGES % (8, 224)
    + "loader = torch.utils.data.DataLoader(data, args.batch, True, num_workers=args.workers)\n"
    + _LOOP,
    Example(
        _IMAGES % (0, 224)
        + "loader = torch.utils.data.DataLoader(data, args.batch, True, num_workers=args.workers)\n"
        + _LOOP,
        launch="torchrun --nproc_per_node 8 train.py",
    ),
)

_PICTURES = (
    r"^torchvision\.datasets\.(ImageFolder|ImageNet|Food101|Flowers102|Places365|CelebA|OxfordIIITPet|StanfordCars)$"
)
_CROPS = r"^torchvision\.transforms\.(v2\.)?(RandomResizedCrop|CenterCrop|RandomCrop)$"
_LIMIT = 8e9


def check(context: Context) -> Iterator[Finding]:
    """Multiply what workers hold ready."""
    for loader in training_loaders(context):
        workers, factor, batch = (setting(loader, n) for n in ("num_workers", "prefetch_factor", "batch_size"))
        side = _side(dataset_of(loader))
        factor = 2 if factor is None or factor is UNKNOWN and "prefetch_factor" not in loader.kwargs else factor
        if side is None or not all(isinstance(n, int) and n > 0 for n in (workers, factor, batch)):
            continue
        ranks = _ranks(context)
        sample = 3 * side * side * 4
        assert isinstance(workers, int)
        assert isinstance(factor, int)
        assert isinstance(batch, int)
        total = ranks * workers * factor * batch * sample
        if total < _LIMIT:
            continue
        shown = f"{ranks} ranks x {workers} workers x {factor} batches x {batch} x 3 x {side} x {side} x 4 bytes"
        yield context.finding(
            RULE,
            loader,
            f"{total / 1e9:.0f} GB of finished batches wait in the shared memory of a node ({ranks * workers * factor} batches of {batch})",
            evidence=[Evidence("batches held ready", total, "bytes", "derived", shown)],
            fix=Fix(
                title="hold fewer batches ready",
                instruction="lower num_workers or prefetch_factor, or convert images to float on the GPU",
                expected=f"with half the workers {total / 2e9:.0f} GB",
            ),
        )


def _ranks(context: Context) -> int:
    """Processes on one node, as far as the launch line says; 1 where nothing does."""
    world = context.fact("world_size")
    return min(world, 8) if isinstance(world, int) and world > 0 else 1


def _side(dataset: Value | None) -> int | None:
    """The side of the square that the last crop of a library's picture data set leaves."""
    base = settle(dataset) if dataset is not None else None
    if not isinstance(base, Obj) or base.cls is not None or not re.match(_PICTURES, base.name):
        return None
    made = [p for p in provenance(base, 120) if isinstance(p, Obj) and re.match(_CROPS, p.name)]
    sizes = {
        plain(p.argument(0, "size")) for p in made if isinstance(settle(p.argument(0, "size") or Known(None)), Known)
    }
    side = sizes.pop() if len(sizes) == 1 else None
    floats = any(
        isinstance(p, Obj) and p.name.endswith((".ToTensor", ".ToDtype", ".ConvertImageDtype"))
        for p in provenance(base, 120)
    )
    return side if isinstance(side, int) and floats else None
