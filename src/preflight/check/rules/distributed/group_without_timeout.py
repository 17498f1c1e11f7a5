"""Long work by one rank while the others wait at a barrier.

## What it does
Looks for `init_process_group` without `timeout` in a script where only some ranks download, tokenize or load before a barrier or collective that the others already wait at.

## Why
A rank that waits longer than the timeout (10 minutes with NCCL, 30 minutes otherwise) is ended with an error.
Preparing a large data set on rank 0 takes longer than that.

## Fix
Give `timeout=datetime.timedelta(hours=2)`, or prepare the data in a step of its own.

## When to ignore
When the preparation is known to take minutes.

## References
- PyTorch documentation, torch.distributed.init_process_group, argument `timeout`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.ranks import rank_guard
from preflight.source.values import Known, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="group-without-timeout", code="DST015", severity="info", confidence="likely", layer="D", tags=("distributed",)
)

BAD = (
    """
import torch.distributed as dist
from datasets import load_dataset
dist.init_process_group("nccl")
if dist.get_rank() == 0:
    data = load_dataset("c4", "en")
dist.barrier()
""",
    """
import os
from torch import distributed as D
from huggingface_hub import snapshot_download as fetch
def prepare():
    if int(os.environ["RANK"]) == 0:
        fetch("meta-llama/Llama-2-7b")
    D.barrier()
D.init_process_group(backend="nccl")
prepare()
""",
    """
import argparse, torch, torchvision
from torch.distributed import init_process_group, barrier
p = argparse.ArgumentParser()
p.add_argument("--local_rank", type=int, default=0)
args = p.parse_args()
init_process_group("nccl", init_method="env://")
first = args.local_rank == 0
if not first:
    barrier()
data = torchvision.datasets.ImageNet("data")
if first:
    torchvision.datasets.CIFAR10("data", download=True)
    barrier()
""",
)

GOOD = (
    """
import datetime
import torch.distributed as dist
from datasets import load_dataset
dist.init_process_group("nccl", timeout=datetime.timedelta(hours=3))
if dist.get_rank() == 0:
    data = load_dataset("c4", "en")
dist.barrier()
""",
    """
import torch.distributed as dist
from datasets import load_dataset
dist.init_process_group("nccl")
data = load_dataset("c4", "en")
if dist.get_rank() == 0:
    print(data)
dist.barrier()
""",
)

_LONG = (
    "datasets.load_dataset",
    "huggingface_hub.snapshot_download",
    "huggingface_hub.hf_hub_download",
    "torch.hub.load",
    "torch.hub.load_state_dict_from_url",
    "torch.hub.download_url_to_file",
    "urllib.request.urlretrieve",
    "gdown.download",
)


def check(context: Context) -> Iterator[Finding]:
    """Find groups with the default timeout around long work of one rank."""
    waits = context.trace.calls("torch.distributed.barrier")
    groups = context.trace.calls("torch.distributed.init_process_group")
    if not groups or not waits:
        return
    group = groups[0]
    given = group.argument(2, "timeout")
    if given is not None and not (isinstance(settle(given), Known) and context.value(given) is None):
        return
    for event in [*context.trace.calls(*_LONG), *context.trace.calls_under("torchvision.datasets.")]:
        download = not event.name.startswith("torchvision.") or context.value(event.kwargs.get("download")) is True
        if not download or rank_guard(event) is None or event.number < group.number:
            continue
        if not any(w.number > event.number for w in waits):
            continue
        backend = context.value(group.argument(0, "backend"))
        minutes = 10 if backend in (None, "nccl") else 30
        yield context.finding(
            RULE,
            group,
            f"some ranks wait at a barrier while another one runs {event.name}; the default timeout is {minutes} minutes",
            evidence=[Evidence("timeout", minutes, "min", "published"), Evidence("backend", str(backend))],
            fix=Fix(
                title="give the group a longer timeout",
                instruction="init_process_group(..., timeout=datetime.timedelta(hours=2)), or prepare the data before the run",
                expected="waiting ranks are not ended",
            ),
            related=[(event, "only some ranks do this")],
        )
        return
