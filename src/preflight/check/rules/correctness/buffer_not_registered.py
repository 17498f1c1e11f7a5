"""A constant tensor of a module is not registered as a buffer.

## What it does
Reports plain tensors that a module keeps as attributes and combines with the output of its layers in `forward`, in a script that sends the model to a GPU, or replicates it with `DataParallel`.

## Why
`to()`, `cuda()`, `state_dict()` and `DataParallel` only see parameters and buffers.
A plain tensor stays on the CPU, so the first step stops; one that was moved by hand stays on the first GPU, so every other replica stops.

## Fix
Use `self.register_buffer("name", tensor)`.

## When to ignore
When the tensor is moved in `forward` on purpose, which this rule sees.

## References
- PyTorch documentation of Module.register_buffer
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.placement import made_at, meetings, model_on_gpu
from preflight.check.queries.tensors import source_text, within_forward
from preflight.check.rule import Rule
from preflight.source.evaluate.library.methods import is_module
from preflight.source.trace import Store, provenance
from preflight.source.values import settle
from preflight.vocabulary.finding import Edit, Finding

RULE = Rule(
    name="buffer-not-registered",
    code="MOD009",
    severity="warning",
    confidence="certain",
    needs=("complete",),
    layer="D",
    tags=("modules", "device"),
)

BAD = (
    """
import torch, torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.scale = torch.linspace(0, 1, 8)
    def forward(self, x):
        return self.fc(x) * self.scale
net = Net().cuda()
for x, y in loader:
    nn.functional.mse_loss(net(x.cuda()), y.cuda()).backward()
""",
    """
import torch
class Causal(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.q = torch.nn.Linear(8, size)
        self.make(size)
    def make(self, size):
        self.mask = torch.tril(torch.ones(size, size)) == 0
        self.bias = torch.arange(size).float() * 0.5
    def forward(self, x):
        return (self.q(x) + self.bias).softmax(-1)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = Causal(16).to(device)
for x in loader:
    net(x.to(device)).sum().backward()
""",
    """
import argparse, torch
from torch import nn
p = argparse.ArgumentParser()
p.add_argument("--n", type=int, default=20)
args = p.parse_args()
class Grid(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.fc = nn.Linear(8, n)
        self.basis = torch.eye(n).float().cuda()
    def forward(self, x):
        return torch.bmm(self.basis, self.fc(x))
net = nn.DataParallel(Grid(args.n)).cuda()
for x in loader:
    net(x).sum().backward()
""",
)

GOOD = (
    """
import torch, torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.register_buffer("scale", torch.linspace(0, 1, 8))
        self.offset = torch.ones(8)
        self.half = torch.tensor(0.5)
        self.weight = nn.Parameter(torch.ones(8))
    def forward(self, x):
        return self.fc(x) * self.scale * self.half * self.weight + self.offset.to(x.device)
net = Net().cuda()
for x, y in loader:
    nn.functional.mse_loss(net(x.cuda()), y.cuda()).backward()
""",
    """
import torch, torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.order = nn.Linear(8, 8), torch.randperm(8)
    def forward(self, x):
        return self.fc(x)[:, self.order]
net = Net().cuda()
for x in loader:
    net(x.cuda()).sum().backward()
""",
    """
import torch
from torch import nn
class Head(nn.Module):
    def __init__(self, stride):
        super().__init__()
        self.conv, self.stride = nn.Conv2d(8, 4, 1), stride
    def forward(self, x):
        return torch.sigmoid(self.conv(x)) * self.stride
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.strides = torch.FloatTensor([8, 16])
        self.small, self.large = Head(self.strides[0]), Head(self.strides[1])
    def forward(self, x):
        return self.small(x).mean() + self.large(x).mean()
model = Net().cuda()
""",
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.scales = nn.Linear(4, 4), torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    def forward(self, x):
        return self.layer(x) * self.scales[0, 0] + sum(self.scales[1][i] for i in range(n))
model = Net().cuda()
for x in loader:
    model(x.cuda()).sum().backward()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Look for attributes that hold a factory's tensor and meet the model's own."""
    parallel = bool(context.trace.calls("torch.nn.parallel.DataParallel"))
    if not parallel and not model_on_gpu(context):
        return
    stores = [s for s in context.trace.stores if not s.name.startswith("[") and is_module(settle(s.target))]
    for value, factory, place in meetings(context):
        if within_forward(factory.context) or (place == "moved" and not parallel):
            continue
        store = next((s for s in stores if any(p is factory for p in provenance(s.value, 12))), None)
        if store is None or (place == "moved" and not _moved_before(store, factory)):
            continue
        stays = "stays on the first GPU while DataParallel copies the rest" if place == "moved" else "stays on the CPU"
        yield context.finding(
            RULE,
            store,
            f"self.{store.name} is a plain tensor, not a buffer: it {stays}, and is not saved",
            evidence=[
                Evidence("assigned", source_text(context, store.value)),
                Evidence("met in", source_text(context, value)),
            ],
            related=[(value, "forward combines it with a tensor of the model here")],
            fix=Fix(
                title="register it as a buffer",
                edits=edits(_edit(context, store)),
                instruction=f'self.register_buffer("{store.name}", ...)',
                expected="it moves and is saved with the model",
            ),
        )


def _moved_before(store: Store, factory: object) -> bool:
    """Whether the move is part of what was assigned, not of its use."""
    found = made_at(store.value)
    return found is not None and found[1] == "moved"


def _edit(context: Context, store: Store) -> Edit | None:
    node = store.node
    if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Attribute):
        return None
    owner, text = store.script.segment(node.targets[0].value), store.script.segment(node.value)
    if not text or "#" in text or owner != "self":
        return None
    return context.replace((store.script, node), f'self.register_buffer("{store.name}", {text})')
