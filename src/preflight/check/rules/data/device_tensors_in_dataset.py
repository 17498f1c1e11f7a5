"""A dataset or collate function moves samples to the GPU.

## What it does
Looks for `.cuda()` and `.to("cuda")` inside `Dataset.__getitem__` or inside the function given as `collate_fn`.

## Why
With worker processes this fails: a forked worker cannot use CUDA once the parent has ("Cannot re-initialize CUDA in forked subprocess").
Without workers it works, but copies each sample alone: a batch of 64 samples makes 64 small transfers, each with its own launch and synchronisation, instead of one large copy that can overlap with computing.

## Fix
Return CPU tensors, pin them with `pin_memory=True`, and move the whole batch in the training loop with `non_blocking=True`.

## When to ignore
When the whole dataset already lies on the GPU and the loader has no workers.

## References
- PyTorch documentation, "Multiprocessing best practices", CUDA in multiprocessing
- PyTorch documentation, `torch.utils.data`, "Multi-process data loading", note on returning CUDA tensors
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.loaders import dataset_of, given, setting, torch_loaders
from preflight.check.queries.steps import moves_to_gpu
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import Bound, Class, Func, Obj, options_of
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="device-tensors-in-dataset",
    code="DAT003",
    severity="warning",
    confidence="likely",
    layer="D",
    tags=("data", "gpu"),
)

BAD = (
    """
import torch
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __getitem__(self, i):
        return self.rows[i].cuda(), self.labels[i]
    def __len__(self):
        return 10
for x, y in DataLoader(Rows(), batch_size=8, shuffle=True):
    pass
""",
    """
import torch
import torch.utils.data as D
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
def pad(batch):
    return torch.stack(batch).to(device)
loader = D.DataLoader(samples, 16, collate_fn=pad, num_workers=4)
for x in loader:
    pass
""",
    """
import argparse
from torch.utils.data import Dataset
class Base(Dataset):
    def load(self, i):
        return self.items[i].to(self.args.device)
class Images(Base):
    def __init__(self, args):
        self.args = args
    def __getitem__(self, i):
        return self.load(i)
parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda:0")
data = Images(parser.parse_args())
""",
)
GOOD = (
    """
import torch
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __init__(self):
        self.rows = torch.zeros(10, 3).cuda()
    def __getitem__(self, i):
        return self.rows[i].to(torch.float32), 0
    def __len__(self):
        return 10
for x, y in DataLoader(Rows(), batch_size=8, shuffle=True):
    x = x.cuda()
""",
    """
import torch
from torch.utils.data import DataLoader
def pad(batch):
    return torch.stack(batch).to("cpu")
for x in DataLoader(samples, 16, collate_fn=pad, pin_memory=True):
    x.to("cuda", non_blocking=True)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find moves to a GPU inside what a loader calls for its samples."""
    collates = _collates(context)
    told: set[int] = set()
    for event in context.trace.calls(".cuda", ".to"):
        if moves_to_gpu(event) is not True or event.context.shadow:
            continue
        inside = _inside(event, collates)
        if inside is None or id(inside.node) in told:
            continue  # whoever takes one move out of a function takes all out
        told.add(id(inside.node))
        workers = _workers(context, inside)
        forked = isinstance(workers, int) and workers > 0 and not _spawned(context)
        follows = (
            f"with {workers} worker processes CUDA cannot be initialised again in a forked worker, and the first batch fails"
            if forked
            else "each sample is copied alone, and worker processes cannot be used"
        )
        yield context.finding(
            RULE,
            event,
            f"{inside.qualname} moves samples to the GPU: {follows}",
            evidence=[
                Evidence("called for each", "batch" if id(inside.node) in collates else "sample"),
                Evidence("num_workers", workers),
            ],
            fix=Fix(
                title="move batches in the training loop instead",
                instruction="return CPU tensors, pass pin_memory=True to the loader, and move each batch with .to(device, non_blocking=True)",
                expected="one copy per batch that can overlap with computing, and workers can be used",
            ),
            severity="error" if forked else None,
        )


def _collates(context: Context) -> set[int]:
    found: set[int] = set()
    for loader in context.reading.made("loader"):
        for option in options_of(given(loader, "collate_fn")):
            func = option.func if isinstance(option, Bound) else option
            if isinstance(func, Func):
                found.add(id(func.node))
            elif isinstance(option, Obj) and option.cls is not None:
                method = option.cls.lookup("__call__")
                if isinstance(method, Func):
                    found.add(id(method.node))
    return found


def _inside(event: Event, collates: set[int]) -> Func | None:
    for frame in event.context.frames():
        func = frame.value
        if frame.kind not in ("call", "root") or not isinstance(func, Func):
            continue
        if id(func.node) in collates:
            return func
        if func.owner is not None and func.qualname.endswith("__getitem__") and _is_dataset(func.owner):
            return func
    return None


def _is_dataset(owner: Class) -> bool:
    return any(n.startswith(("torch.utils.data.", "torchvision.datasets.")) for n in owner.external_bases())


def _workers(context: Context, inside: Func) -> int | None:
    """The number of workers of the loader that calls a function."""
    for loader in torch_loaders(context):
        dataset = dataset_of(loader)
        owner = dataset.cls if isinstance(dataset, Obj) else None
        collate = [o.func if isinstance(o, Bound) else o for o in options_of(given(loader, "collate_fn"))]
        if (owner is not None and inside.owner in owner.lineage) or inside in collate:
            workers = setting(loader, "num_workers")
            return workers if isinstance(workers, int) else None
    return None


def _spawned(context: Context) -> bool:
    names = (
        "torch.multiprocessing.set_start_method",
        "multiprocessing.set_start_method",
        "torch.multiprocessing.get_context",
    )
    if context.trace.calls(*names):
        return True
    return any(setting(o, "multiprocessing_context") is not None for o in torch_loaders(context))
