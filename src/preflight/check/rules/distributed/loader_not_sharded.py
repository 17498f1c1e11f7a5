"""Every rank trains on the whole data set.

## What it does
Looks for a model in DistributedDataParallel (or FSDP) whose training loader shuffles the whole data set, without a `DistributedSampler` and without any part of the data chosen by rank.

## Why
Each of N ranks goes through all samples in every epoch: an epoch costs N times what it should, and the schedule that counts epochs trains N times longer than planned.

## Fix
Give the loader `sampler=DistributedSampler(dataset)` and drop `shuffle=True`.

## When to ignore
When each rank is meant to draw its own random batches from all data, and lengths are counted in steps.

## References
- PyTorch documentation, torch.utils.data.distributed.DistributedSampler
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.ranks import carries_rank
from preflight.source.trace import Event, provenance
from preflight.source.training import same_guards
from preflight.source.values import Known, Obj, Unknown, options_of, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="loader-not-sharded",
    code="DST022",
    severity="warning",
    confidence="likely",
    needs=("training_loop", "loader", "complete"),
    layer="D",
    tags=("distributed", "data"),
)

_MAIN = """
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
dist.init_process_group("nccl")
dataset = TensorDataset(torch.randn(1000, 4), torch.randint(2, (1000,)))
loader = DataLoader(dataset, batch_size=32, shuffle=True)
model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2).cuda(), device_ids=[0])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
"""

BAD = (
    _MAIN,
    """
import argparse, torch, torchvision
import torch.nn as nn
import torch.utils.data as data
def loaders(args):
    return data.DataLoader(torchvision.datasets.CIFAR10("d"), args.batch, shuffle=args.shuffle)
class Trainer:
    def __init__(self, args):
        self.model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
        self.opt = torch.optim.Adam(self.model.parameters())
        self.loader = loaders(args)
    def train(self):
        for x, y in self.loader:
            self.opt.zero_grad()
            nn.functional.cross_entropy(self.model(x), y).backward()
            self.opt.step()
p = argparse.ArgumentParser()
p.add_argument("--batch", type=int, default=8)
p.add_argument("--shuffle", type=int, default=True)
torch.distributed.init_process_group("nccl")
Trainer(p.parse_args()).train()
""",
    """
import torch
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.utils.data import DataLoader as DL, Dataset
class Lines(Dataset):
    def __len__(self):
        return 100
    def __getitem__(self, i):
        return torch.zeros(4)
torch.distributed.init_process_group("nccl")
net = FSDP(torch.nn.Linear(4, 1), auto_wrap_policy=policy)
opt = torch.optim.AdamW(net.parameters())
for x in DL(Lines(), 4, True):
    opt.zero_grad()
    net(x).mean().backward()
    opt.step()
""",
)

GOOD = (
    """
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
def loader_of(samples, spread=False):
    if spread:
        return DataLoader(samples, batch_size=8, sampler=DistributedSampler(samples))
    else:
        return DataLoader(samples, batch_size=8, shuffle=True)
torch.distributed.init_process_group("nccl")
samples = torch.utils.data.TensorDataset(torch.zeros(64, 4), torch.zeros(64, 2))
model = DistributedDataParallel(nn.Linear(4, 2).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader_of(samples, torch.distributed.is_initialized()):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
""",
    _MAIN.replace("shuffle=True)", "sampler=torch.utils.data.distributed.DistributedSampler(dataset))"),
    _MAIN.replace(
        "loader = DataLoader",
        "dataset = torch.utils.data.Subset(dataset, range(dist.get_rank(), 1000, 8))\nloader = DataLoader",
    ),
    _MAIN.replace("import torch\n", "import torch, argparse\n", 1).replace(
        "loader = DataLoader(dataset, batch_size=32, shuffle=True)",
        """p = argparse.ArgumentParser()
p.add_argument("--distributed", action="store_true")
args = p.parse_args()
sampler = torch.utils.data.DistributedSampler(dataset) if args.distributed else None
loader = DataLoader(dataset, batch_size=32, shuffle=(sampler is None), sampler=sampler)""",
    ),
)

_WRAPS = (
    "torch.nn.parallel.DistributedDataParallel",
    "torch.distributed.fsdp.FullyShardedDataParallel",
    "torch.distributed.fsdp.fully_shard",
)


def check(context: Context) -> Iterator[Finding]:
    """Find shuffling loaders of wrapped models."""
    for role in ("accelerator", "fabric", "engine", "lightning_trainer", "trainer"):
        if context.reading.made(role):
            return
    wraps = [e for e in context.trace.calls(*_WRAPS) if not e.context.shadow]
    for loader in context.reading.made("loader") if wraps else []:
        event = context.reading.event_of(loader)
        if (
            event is None
            or loader.name != "torch.utils.data.DataLoader"
            or event.context.shadow
            or not _trains(context, loader)
        ):
            continue
        if (
            loader.open_args
            or loader.cls is not None
            or not _shuffles(context, event)
            or not same_guards(event, wraps[0])
        ):
            continue
        dataset = event.argument(0, "dataset")
        if carries_rank(dataset) or _split_elsewhere(event) or _for_one_process(context, event):
            continue
        known = any(isinstance(o, Obj) and context.roles.of(o) == "dataset" for o in options_of(dataset, limit=4))
        yield context.finding(
            RULE,
            event,
            "the model is trained on several ranks, but this loader shuffles the whole data set on each of them: an epoch does the work N times",
            confidence="likely" if known else "possible",
            evidence=[
                Evidence("sampler", None),
                Evidence("shuffle", True),
                Evidence("parts of the data chosen by rank", 0),
            ],
            fix=Fix(
                title="shard the data with a DistributedSampler",
                instruction="give sampler=DistributedSampler(dataset) instead of shuffle=True, and call sampler.set_epoch(epoch)",
                expected="each rank reads 1/N of the data per epoch",
            ),
            related=[(wraps[0], "the model runs on several ranks")],
        )


def _shuffles(context: Context, event: Event) -> bool:
    for name, position in (("sampler", 3), ("batch_sampler", 4)):
        given = event.argument(position, name)
        if any(not (isinstance(o, Known) and o.value is None) for o in options_of(given)):
            return False
    shuffle = event.argument(2, "shuffle")
    settled = settle(shuffle) if shuffle is not None else None
    return isinstance(settled, Known) and settled.value in (True, 1)


def _trains(context: Context, loader: Obj) -> bool:
    for loop in context.reading.loops:
        frames = [loop.frame, *loop.outer] + ([loop.micro] if loop.micro is not None else [])
        if any(p is loader for f in frames for p in provenance(f.value, 300)):
            return True
    return False


def _for_one_process(context: Context, event: Event) -> bool:
    """Whether the other side of a branch makes a loader with a sampler for ranks: then this one is not for them."""
    branches = {id(f.node): f.polarity for f in event.context.frames() if f.kind == "if" and f.node is not None}
    for loader in context.reading.made("loader") if branches else ():
        other = context.reading.event_of(loader)
        given = other.argument(3, "sampler") if other is not None else None
        if other is None or not any("Distributed" in getattr(o, "name", "") for o in options_of(given)):
            continue
        if any(
            f.kind == "if" and branches.get(id(f.node), f.polarity) is not f.polarity for f in other.context.frames()
        ):
            return True
    return False


def _split_elsewhere(event: Event) -> bool:
    """Whether the data comes from something that is not seen and may already be the rank's own part."""
    return any(
        (isinstance(p, Unknown) and p.reason.startswith(("parameter", "the environment")))
        or (isinstance(p, Obj) and p.name.endswith(("split_dataset_by_node", ".shard", "scatter_dataset")))
        for p in provenance(event.argument(0, "dataset"), 100)
    )
