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

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.loaders import (
    dataset_of,
    feeding,
    given,
    set_argument,
    setting,
    training_loaders,
)
from preflight.check.queries.stored_order import in_stored_order
from preflight.check.rule import Rule
from preflight.source.trace import provenance
from preflight.source.values import Obj, Value
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
from torch.utils.data import DataLoader, TensorDataset
net = torch.nn.Linear(4, 2)
net.load_state_dict(torch.load("net.pt"))
for (x,) in DataLoader(TensorDataset(torch.rand(64, 4)), batch_size=1, shuffle=False):
    x.requires_grad_()
    net(x)[0, 1].backward()
    print(x.grad.abs().argmax())
""",
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
from torch.utils.data import DataLoader, Dataset
class Simulated(Dataset):
    def __init__(self, simulator):
        self.simulator = simulator
    def __len__(self):
        return 512
    def __getitem__(self, index):
        state = self.simulator.advance()
        return state.observed, state.truth
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(Simulated(simulator), batch_size=8, num_workers=2):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
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


_TRAINERS = ("optimizer", "lightning_trainer", "lightning_module", "trainer", "engine")


def check(context: Context) -> Iterator[Finding]:
    """Find loaders of training data whose order never changes."""
    if not any(map(context.reading.made, _TRAINERS)) and not any(loop.steps for loop in context.reading.loops):
        return  # gradients alone, such as those that say what a network looks at
    for loader in training_loaders(context):
        if setting(loader, "shuffle") is not False or not in_stored_order(context, loader):
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


def _confidence(dataset: Value | None) -> Confidence:
    """Whether the dataset is known to have an order that a loader could change."""
    return "likely" if isinstance(dataset, Obj) and dataset.kind in ("call", "instance") else "possible"


def _shown(dataset: Value | None) -> str:
    if isinstance(dataset, Obj):
        return dataset.cls.qualname if dataset.cls is not None else dataset.name or "not known"
    return "not known"
