"""Ranks draw different random splits.

## What it does
Looks for `random_split` without a generator, `train_test_split` without `random_state`, and index permutations drawn without a seed, whose parts are then read by several ranks.

## Why
Each rank draws its own split: a sample that is in the test set on one rank is in the training set on another.
The evaluation then measures on data that the model was trained on, and `DistributedSampler` shards lists that differ.

## Fix
Give a generator with a fixed seed: `random_split(dataset, lengths, generator=torch.Generator().manual_seed(0))`.

## When to ignore
When every process is seeded alike before the split by code that cannot be seen from the script.

## References
- PyTorch documentation, torch.utils.data.random_split, argument `generator`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.rule import Rule
from preflight.source.ranks import rank_guard, rank_kind
from preflight.source.trace import Event
from preflight.source.values import Known, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="split-differs-between-ranks",
    code="DST013",
    severity="error",
    confidence="likely",
    needs=("complete",),
    layer="D",
    tags=("distributed", "data", "reproducibility"),
)

BAD = (
    """
import torch
from torch import nn
from torch.utils.data import random_split, DataLoader, DistributedSampler
torch.distributed.init_process_group("nccl")
train, valid = random_split(dataset, [900, 100])
model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2).cuda(), device_ids=[0])
loader = DataLoader(train, sampler=DistributedSampler(train))
""",
    """
import argparse, torch
import torch.utils.data as data
from torch.nn.parallel import DistributedDataParallel as DDP
def split(dataset, args):
    n = int(len(dataset) * args.fraction)
    return data.random_split(dataset, [n, len(dataset) - n])
p = argparse.ArgumentParser()
p.add_argument("--fraction", type=float, default=0.9)
torch.distributed.init_process_group("nccl")
torch.manual_seed(torch.distributed.get_rank())
a, b = split(dataset, p.parse_args())
net = DDP(torch.nn.Linear(4, 2))
""",
    """
import torch
from sklearn.model_selection import train_test_split as tts
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
class Data:
    def __init__(self, files):
        self.train, self.test = tts(files, test_size=0.1)
torch.distributed.init_process_group("nccl")
data = Data(files)
model = FSDP(torch.nn.Linear(4, 2), auto_wrap_policy=p)
""",
)

GOOD = (
    BAD[0].replace("[900, 100])", "[900, 100], generator=torch.Generator().manual_seed(0))"),
    BAD[0].replace("train, valid =", "torch.manual_seed(0)\ntrain, valid ="),
    BAD[0]
    .replace(
        "model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2).cuda(), device_ids=[0])", "model = nn.Linear(4, 2)"
    )
    .replace('torch.distributed.init_process_group("nccl")\n', ""),
    BAD[2].replace("test_size=0.1", "test_size=0.1, random_state=42"),
    BAD[0].replace("train, valid =", "from utils import set_random_seed\nset_random_seed(1)\ntrain, valid ="),
)

_SPLITS = {"torch.utils.data.random_split": "generator", "sklearn.model_selection.train_test_split": "random_state"}
_WRAPS = (
    "torch.nn.parallel.DistributedDataParallel",
    "torch.distributed.fsdp.FullyShardedDataParallel",
    "torch.distributed.fsdp.fully_shard",
    "deepspeed.initialize",
    "accelerate.Accelerator",
)
_TORCH = ("torch.manual_seed", "torch.random.manual_seed")
_NUMPY = ("numpy.random.seed",)


def check(context: Context) -> Iterator[Finding]:
    """Find unseeded splits in distributed scripts."""
    if all(e.context.shadow for e in context.trace.calls(*_WRAPS)):
        return
    for event in context.trace.calls(*_SPLITS):
        given = event.kwargs.get(_SPLITS[event.name]) or (
            event.argument(2, "generator") if event.name.startswith("torch") else None
        )
        if given is not None and not (isinstance(settle(given), Known) and context.value(given) is None):
            continue
        shuffle = context.value(event.kwargs.get("shuffle"), True)
        if (
            event.context.shadow
            or shuffle is False
            or rank_guard(event) is not None
            or getattr(event.result, "open_args", False)
        ):
            continue
        seeds = _seeds(context, event)
        if any(not _by_rank(s) for s in seeds):
            continue
        keyword = _SPLITS[event.name]
        text = "generator=torch.Generator().manual_seed(0)" if keyword == "generator" else "random_state=0"
        bound = keyword == "random_state" or any(
            line.strip() in ("import torch",) or line.startswith("import torch,") for line in event.script.lines
        )
        edit = context.add_argument(event, text) if bound else None
        cause = "the seed differs between the ranks" if seeds else "nothing seeds it"
        yield context.finding(
            RULE,
            event,
            f"each rank draws its own {event.name.rpartition('.')[2]} ({cause}): samples held out on one rank are trained on by another",
            evidence=[Evidence(keyword, None), Evidence("seeds before it that all ranks share", 0)],
            fix=Fix(
                title="draw the split with a fixed seed",
                edits=edits(edit) if edit is not None else (),
                instruction=f"give {text}",
                expected="all ranks hold the same split",
            ),
        )


def _seeds(context: Context, event: Event) -> list[Event]:
    """The calls before an event that seed what it draws from, also by code that is not seen."""
    names = _TORCH if event.name.startswith("torch") else _NUMPY
    found: list[Event] = []
    for name, events in context.trace.by_name.items():
        last = name.rpartition(".")[2].lower()
        other = (
            "seed" in last
            and not name.startswith(("random.", "numpy.", "torch.", "tensorflow."))
            and not any(e.inlined for e in events)
        )
        if name in names or other:
            found.extend(e for e in events if e.number < event.number)
    return found


def _by_rank(seed: Event) -> bool:
    return any(rank_kind(a) is not None for a in (*seed.args, *seed.kwargs.values()))
