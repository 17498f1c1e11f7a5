"""Several GPUs for a script that knows of one.

## What it does
Looks for a plain training script without a word of ranks, wrappers or several devices that is to be started on more than one GPU.

## Why
A launcher starts the script once per GPU, and nothing tells the copies apart: all of them train the same model on the same batches, each writes the same files, and a step takes as long as on one GPU.
Started once, the script leaves all GPUs but the first idle.

## Fix
Start it on one GPU, or make it data-parallel: `init_process_group`, `DistributedDataParallel`, `DistributedSampler`.

## When to ignore
When something outside the script gives each copy settings or data of its own.

## References
- PyTorch tutorials, "Getting Started with Distributed Data Parallel"
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.updates import managed
from preflight.check.rule import Example, Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="script-for-one-process",
    code="DST023",
    severity="warning",
    confidence="likely",
    needs=("training_loop", "complete"),
    layer="C",
    tags=("distributed",),
)

_SCRIPT = """
import torch
from torch import nn
model = nn.Linear(10, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""

BAD = (
    Example(_SCRIPT, gpus=8),
    Example(_SCRIPT, launch="torchrun --nproc-per-node 4 train.py"),
    Example(
        """
import argparse, numpy as np, torch
from net import Net
p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
args = p.parse_args()
class Trainer:
    def __init__(self):
        self.net = Net().to(args.device)
        self.opt = torch.optim.Adam(self.net.parameters())
    def update(self, x):
        self.opt.zero_grad()
        self.net(x.to(args.device)).mean().backward()
        self.opt.step()
t = Trainer()
for x in batches:
    t.update(x)
""",
        files={
            "net.py": """
import torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 1)
    def forward(self, x):
        return self.a(x)
"""
        },
        gpus=2,
    ),
)

GOOD = (
    Example(_SCRIPT, gpus=1),
    Example("import os\nseed = int(os.environ.get('RANK', 0))\n" + _SCRIPT, gpus=8),
    Example(_SCRIPT.replace(".cuda()", "\nmodel = nn.DataParallel(model)"), gpus=4),
    Example("import cluster\n" + _SCRIPT, gpus=4),
    Example("import torch.distributed as dist\ndist.init_process_group()\n" + _SCRIPT, gpus=4),
)

_HARMLESS = frozenset(
    "torch torchvision torchaudio torchtext torchmetrics numpy pandas scipy sklearn matplotlib seaborn PIL cv2 skimage tqdm yaml "
    "wandb tensorboard tensorboardX timm transformers peft safetensors diffusers evaluate torchinfo datasets tokenizers tiktoken sentencepiece einops h5py rich gym gymnasium nltk"
    "".split()
)
"""Libraries that start no processes and wrap no model by themselves."""
_KNOWS = re.compile(
    r"distributed|DataParallel|multiprocessing|subprocess|fork\(|device_ids|device_map|device_mesh|set_device|cuda:[1-9{]|"
    r"CUDA_VISIBLE_DEVICES|device_count|\b(?:LOCAL_|NODE_|OMPI_COMM_WORLD_|PMI_)?RANK\b|WORLD_SIZE|SLURM_(?:PROC|LOCAL|ARRAY)|nproc"
)
"""Words of scripts that know of several GPUs or processes."""


def check(context: Context) -> Iterator[Finding]:
    """Find a script for one process that several GPUs are asked for."""
    world = context.parallel.world_size
    asked = context.gpus or context.launch.world_size
    if world < 2 or asked is None or managed(context) or not _is_alone(context):
        return
    loop = next((loop for loop in context.reading.loops if loop.steps and not loop.frame.shadow), None)
    if loop is None:
        return
    yield context.finding(
        RULE,
        loop.backwards[0],
        f"{world} GPUs are asked for, and nothing in the script knows of more than one: {world} copies would do the same work",
        evidence=[
            Evidence("GPUs asked for", world),
            Evidence("process groups, wrappers, ranks and further devices in the script", 0),
        ],
        fix=Fix(
            title="train on one GPU, or make the script data-parallel",
            safe=False,
            instruction="call init_process_group, wrap the model in DistributedDataParallel and give the loader a DistributedSampler",
            expected=f"each of the {world} ranks takes its part of the batches",
        ),
    )


def _is_alone(context: Context) -> bool:
    """Whether all that the script imports is known, and no word of it is of several devices or processes."""
    scripts = context.reading.scripts
    own = {script.path.rpartition("/")[2].removesuffix(".py") for script in scripts}
    own |= {part for script in scripts for part in script.path.split("/")[:-1]}
    if any(name not in own | _HARMLESS | sys.stdlib_module_names for name in context.reading.imports):
        return False
    return not any(_KNOWS.search(line) for script in scripts for line in script.lines)
