"""Training data is not shuffled.

## What it does
Looks for a training loop that is fed by a `DataLoader` without `shuffle=True`, without a sampler, and without an iterable dataset.

## Why
Files and tables are mostly stored in an order: by class, by day, by source.
Visited in that order, neighbouring batches hold alike samples, so the gradients of neighbouring steps are correlated and each epoch ends fitted to whatever comes last.
On a folder of images that is sorted by class, every batch holds one class.

## Fix
Pass `shuffle=True` to the loader of the training data.

## When to ignore
When the order carries meaning, as with time series or a state that is carried between batches; or when the samples were shuffled on disk.

## References
- PyTorch documentation, `torch.utils.data.DataLoader`, "Data Loading Order and Sampler"
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.loaders import (
    dataset_of,
    feeding,
    given,
    is_iterable_dataset,
    set_argument,
    setting,
    source_loaders,
    training_loaders,
)
from preflight.check.queries.tensors import ELEMENTWISE, VIEWS, operand, operation, origin, second
from preflight.check.rule import Rule
from preflight.source.trace import provenance
from preflight.source.values import Func, Known, Obj, Unknown, Value, options_of, settle
from preflight.vocabulary.finding import Confidence, Finding

RULE = Rule(
    name="training-data-not-shuffled",
    code="DAT001",
    severity="warning",
    confidence="likely",
    needs=("loader",),
    layer="D",
    tags=("data",),
)

BAD = (
    """
import torch
from torch import nn
from torch.utils.data import DataLoader as Loader
from torchvision.datasets import ImageFolder
loader = Loader(ImageFolder("train"), batch_size=64, num_workers=4)
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
""",
    """
import argparse, torch
from torch.utils import data
class Table(data.Dataset):
    def __init__(self, rows):
        self.rows = rows
    def __len__(self):
        return len(self.rows)
    def __getitem__(self, i):
        return self.rows[i]
def make_loader(dataset, args):
    return data.DataLoader(dataset, args.batch, shuffle=args.shuffle)
parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--shuffle", action="store_true")
args = parser.parse_args()
net = torch.nn.Linear(3, 1)
opt = torch.optim.Adam(net.parameters())
train = make_loader(Table([]), args)
for epoch in range(3):
    for i, (x, y) in enumerate(train):
        loss = (net(x) - y).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
    """
import dataclasses, torch, torchvision
@dataclasses.dataclass
class Config:
    shuffle: bool = False
class Trainer:
    def __init__(self, cfg):
        data = torchvision.datasets.CIFAR10("data", transform=torchvision.transforms.ToTensor())
        self.loader = torch.utils.data.DataLoader(data, batch_size=128, shuffle=cfg.shuffle)
        self.model = torch.nn.Linear(3072, 10)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)
    def fit(self):
        it = iter(self.loader)
        while True:
            x, y = next(it)
            self.opt.zero_grad()
            torch.nn.functional.cross_entropy(self.model(x.flatten(1)), y).backward()
            self.opt.step()
Trainer(Config()).fit()
""",
)

GOOD = (
    """
import torch
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, TensorDataset
class Stream(IterableDataset):
    def __iter__(self):
        yield torch.zeros(10), 0
a = DataLoader(Stream(), batch_size=8)
split = TensorDataset(torch.zeros(8, 10))
b = DataLoader(split, batch_size=8, sampler=DistributedSampler(split))
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for loader in (a, b):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
""",
    """
import random, torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
class Crops(Dataset):
    def __len__(self):
        return 1000
    def __getitem__(self, index):
        start = random.randint(0, len(self.text) - 65)
        return self.text[start:start + 64], self.text[start + 1:start + 65]
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
test = DataLoader(torch.utils.data.TensorDataset(torch.zeros(8, 10)), batch_size=8)
for x, y in DataLoader(Crops(), batch_size=8):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
with torch.no_grad():
    for x in test:
        model(x)
""",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
rnn = nn.LSTM(10, 20)
head = nn.Linear(20, 10)
optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)
state = (torch.zeros(1, 8, 20), torch.zeros(1, 8, 20))
for x, y in DataLoader(TensorDataset(torch.zeros(80, 10), torch.zeros(80)), batch_size=8):
    out, state = rnn(x, state)
    state = tuple(s.detach() for s in state)
    optimizer.zero_grad()
    nn.functional.cross_entropy(head(out), y).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(10, 2)
    def forward(self, x):
        return self.layer(x)
    def training_step(self, batch):
        return nn.functional.cross_entropy(self(batch[0]), batch[1])
rows = TensorDataset(torch.zeros(80, 10), torch.zeros(80, dtype=torch.long))
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in DataLoader(rows, batch_size=8, shuffle=True):
    optimizer.zero_grad()
    model.training_step(batch).backward()
    optimizer.step()
with torch.no_grad():
    for batch in DataLoader(rows, batch_size=8):
        print(model.training_step(batch).item())
""",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
def dummy(batch, length, steps):
    rows = torch.randint(0, 50257, (batch * steps, length + 1))
    return rows[:, :-1], rows[:, 1:]
inputs, targets = dummy(8, 64, 20)
loader = DataLoader(TensorDataset(inputs, targets), batch_size=8, shuffle=False)
model = nn.Sequential(nn.Embedding(50257, 32), nn.Linear(32, 50257))
optimizer = torch.optim.AdamW(model.parameters())
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(5):
    for x, y in DataLoader(samples, batch_size=32, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    for x, y in DataLoader(held_out, batch_size=32):
        x.requires_grad_()
        nn.functional.cross_entropy(model(x), y).backward()
        with torch.no_grad():
            print(model(x + 0.01 * x.grad.sign()).argmax(1) == y)
""",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
x = torch.randn(1000, 3)
y = 0.5 * torch.sin(x) @ torch.tensor([[1.0], [-2.0], [0.5]]) + 0.1 * torch.randn(1000, 1)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for a, b in DataLoader(TensorDataset(x, y, (x.sum(dim=1) > 0).long()), batch_size=32):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(a), b).backward()
    optimizer.step()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find loaders of training data whose order never changes."""
    for loader in training_loaders(context):
        if setting(loader, "shuffle") is not False or not _ordered(context, loader):
            continue
        dataset = dataset_of(loader)
        once = _shuffled_before(context, dataset)
        if once is None:
            continue
        shown = "not given" if given(loader, "shuffle") is None else "False"
        told = (
            "the samples are shuffled once and then visited in the same order in each epoch"
            if once
            else "the batches that train are drawn in stored order, the same in each epoch"
        )
        edit = set_argument(context, loader, "shuffle", "True")
        yield context.finding(
            RULE,
            loader,
            f"{told} (shuffle is {shown}, no sampler): neighbouring steps see the same neighbours again and again",
            evidence=[
                Evidence("shuffle", False, None, "derived", "default" if shown == "not given" else "as given"),
                Evidence("sampler", None),
                Evidence("dataset", _shown(dataset)),
            ],
            fix=Fix(
                title="shuffle the training data",
                edits=edits(edit) if edit is not None else (),
                instruction="pass shuffle=True to the loader that feeds the training loop, or shuffle the samples before",
                expected="each epoch visits the samples in another order",
            ),
            severity="info" if once else None,
            confidence=_confidence(dataset),
        )


def _ordered(context: Context, loader: Obj) -> bool:
    """Whether nothing else decides the order of the samples."""
    if any(_chosen(loader, name) for name in ("sampler", "batch_sampler")):
        return False
    dataset = dataset_of(loader)
    if is_iterable_dataset(dataset) or _full_batch(loader) or _drawn(dataset):
        return False
    return not _random_access(dataset) and not _carries_state(context, loader)


_NO_ORDER = frozenset(("rand", "randn", "randint", "randperm", "normal", "bernoulli", "zeros", "ones", "full"))
_KEEP_NO_ORDER = ELEMENTWISE | {
    "+", "-", "*", "/", "**", "@", "<", "<=", ">", ">=", "==", "neg", "add", "sub", "mul", "div", "pow", "matmul", "mm",
    "sum", "mean", "argmax", "sign", "sin", "cos", "gt", "ge", "lt", "le", "eq", "long", "int", "bool",
}  # fmt: skip


def _drawn(dataset: Value | None) -> bool:
    """Whether all samples are numbers that the script draws or writes down, as where only speed is looked at."""
    base = settle(dataset) if dataset is not None else None
    if not isinstance(base, Obj) or base.name != "torch.utils.data.TensorDataset" or not base.args:
        return False
    return all(_without_order(arg) for arg in base.args)


def _without_order(value: Value | None, depth: int = 0) -> bool:
    """Whether a tensor holds numbers that were drawn, or what is computed of each of them: a target, say."""
    made = origin(value, VIEWS, items=True)
    name = operation(made)
    if made is None or name in _NO_ORDER:
        return made is not None
    if name not in _KEEP_NO_ORDER or depth > 8:
        return False
    # What all samples are multiplied by may be written out.
    given = [settle(one) for one in (operand(made), second(made)) if one is not None]
    drawn = [one for one in given if not isinstance(one, Known) and operation(one) != "tensor"]
    return bool(drawn) and all(_without_order(one, depth + 1) for one in drawn)


def _chosen(loader: Obj, name: str) -> bool:
    """Whether a sampler decides the order in every case: one that is there only when distributed does not."""
    value = given(loader, name)
    if value is None:
        return loader.open_args
    return not any(isinstance(option, Known) and option.value is None for option in options_of(settle(value)))


def _full_batch(loader: Obj) -> bool:
    size = given(loader, "batch_size")
    return any(isinstance(p, Obj) and p.name == "builtins.len" for p in provenance(size, 50)) or any(
        isinstance(p, Unknown) and p.reason.startswith("the length") for p in provenance(size, 50)
    )


_SHUFFLES = (
    "random.shuffle", "random.sample", "numpy.random.shuffle", "numpy.random.permutation", "torch.randperm", ".shuffle",
    ".permutation", "sklearn.utils.shuffle", "sklearn.model_selection.train_test_split", ".train_test_split", ".sample",
    "torch.utils.data.random_split",
)  # fmt: skip


def _shuffled_before(context: Context, dataset: Value | None) -> bool | None:
    """Whether samples were put in random order once, before training; None where that happens again and again."""
    if any(isinstance(p, Obj) and p.name in _SHUFFLES for p in provenance(dataset, 400)):
        return True
    events = context.trace.calls(*_SHUFFLES[:-1])
    feeds = feeding(context)
    trains = [f for f in feeds.frames if any(e.name in (".backward", ".manual_backward") for e in feeds.inside(f))]
    if any(e.context.within(frame) for e in events for frame in trains):
        return None
    return bool(events)


_RANDOM = frozenset(("randint", "randrange", "choice", "choices", "sample", "integers", "rand", "random_integers"))


def _random_access(dataset: Value | None) -> bool:
    """Whether the dataset picks its samples at random itself."""
    base = settle(dataset) if dataset is not None else None
    if not isinstance(base, Obj) or base.cls is None:
        return False
    for name in ("__getitem__", "__getitems__", "sample", "get_batch"):
        method = base.cls.lookup(name)
        if isinstance(method, Func) and any(
            isinstance(n, ast.Call) and getattr(n.func, "attr", getattr(n.func, "id", "")) in _RANDOM
            for n in ast.walk(method.node)
        ):
            return True
    return False


def _carries_state(context: Context, loader: Obj) -> bool:
    """Whether a loop over the loader hands what a network returned to its next pass: then the order matters."""
    feeds = feeding(context)
    for carry in context.trace.carried:
        events = feeds.inside(carry.frame)
        if not any(event.name in (".backward", ".manual_backward") for event in events):
            continue
        if loader not in source_loaders(context, carry.frame.value):
            continue
        for event in events:
            if event.name == "()" and any(carry.mark is p for a in event.args for p in provenance(a, 60)):
                return True
    return False


def _confidence(dataset: Value | None) -> Confidence:
    """Whether the dataset is known to have an order that a loader could change."""
    return "likely" if isinstance(dataset, Obj) and dataset.kind in ("call", "instance") else "possible"


def _shown(dataset: Value | None) -> str:
    if isinstance(dataset, Obj):
        return dataset.cls.qualname if dataset.cls is not None else dataset.name or "not known"
    return "not known"
