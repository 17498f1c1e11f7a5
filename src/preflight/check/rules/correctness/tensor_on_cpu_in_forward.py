"""A tensor is made on the CPU inside forward.

## What it does
Reports tensors that `forward` makes without a device (`torch.zeros(...)`, `torch.randn(...)`, `torch.arange(...)`) and combines with what the layers computed, in a script that sends its model to a GPU.

## Why
Factories make tensors on the CPU.
Meeting a tensor on the GPU stops the run in the first step: "Expected all tensors to be on the same device".

## Fix
Pass `device=x.device`, or use `torch.zeros_like(x)` or `x.new_zeros(...)`.

## When to ignore
When a default device is set by code that cannot be seen.

## References
- PyTorch documentation, CUDA semantics
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.placement import looked_up, meetings, model_on_gpu
from preflight.check.queries.tensors import source_text, within_forward
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="tensor-on-cpu-in-forward",
    code="DEV001",
    severity="error",
    confidence="likely",
    needs=("complete",),
    layer="D",
    tags=("device",),
)

BAD = (
    """
import torch, torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
    def forward(self, x):
        h = self.fc(x)
        return h + torch.randn(h.shape)
net = Net().cuda()
for x, y in loader:
    nn.functional.mse_loss(net(x.cuda()), y.cuda()).backward()
""",
    """
import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
args = p.parse_args()
class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.q = torch.nn.Linear(8, 8)
    def forward(self, x):
        scores = self.q(x) @ x.transpose(1, 2)
        mask = torch.tril(torch.ones(x.size(1), x.size(1))).bool()
        return scores.masked_fill(~mask, float("-inf")).masked_fill(torch.eye(x.size(1)).bool(), 0.0)
net = Attention().to(args.device)
for x in loader:
    net(x.to(args.device)).sum().backward()
""",
    """
from torch import nn, zeros, device, cuda, cat
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 8)
    def start(self, n):
        return zeros(n, 1, 8)
    def forward(self, ids):
        return cat([self.start(ids.size(0)), self.embed(ids)], dim=1)
where = device("cuda" if cuda.is_available() else "cpu")
net = Net().to(where)
for ids in loader:
    net(ids.to(where)).sum().backward()
""",
    """
import torch, torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(1000, 8), nn.Embedding(64, 8)
    def forward(self, ids):
        places = torch.arange(ids.size(1)).unsqueeze(0)
        return self.words(ids) + self.places(places)
net = Net().cuda()
for ids, y in loader:
    nn.functional.mse_loss(net(ids.cuda()), y.cuda()).backward()
""",
)

GOOD = (
    """
import torch, torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
    def forward(self, x):
        h = self.fc(x)
        h = h + torch.randn(h.shape, device=h.device) + torch.ones(8).to(h) + torch.zeros_like(h)
        return h * torch.tensor(0.5)
net = Net().cuda()
for x, y in loader:
    nn.functional.mse_loss(net(x.cuda()), y.cuda()).backward()
""",
    """
import torch, torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
    def forward(self, x):
        index = torch.arange(4)
        return self.fc(x)[:, index] + torch.randn(4)
net = Net()
for x, y in loader:
    nn.functional.mse_loss(net(x), y).backward()
""",
    """
import math, torch, torch.nn as nn
def positions(width, device):
    scale = torch.exp(torch.arange(0.0, width, 2) * -(math.log(10000) / width))
    place = torch.arange(0.0, width).unsqueeze(1) * scale
    return torch.sin(place).to(device)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
    def forward(self, x):
        h = self.fc(x)
        B, C = h.shape
        return h + positions(C, h.device).mean() + (torch.ones([B, C]) / C).to(h.device)
net = Net().cuda()
for x, y in loader:
    nn.functional.mse_loss(net(x.cuda()), y.cuda()).backward()
""",
    """
import torch, torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(1000, 8), nn.Embedding(64, 8)
        self.register_buffer("order", torch.arange(64))
    def forward(self, ids):
        here = torch.arange(ids.size(1), device=ids.device)
        return self.words(ids) + self.places(here) + self.places(torch.arange(ids.size(1)).to(ids.device)) + self.places(self.order)
net = Net().cuda()
for ids, y in loader:
    nn.functional.mse_loss(net(ids.cuda()), y.cuda()).backward()
""",
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(1000, 8), nn.Embedding(64, 8)
    def forward(self, ids):
        places = ids.new(ids.size(1)).long()
        places = torch.arange(ids.size(1), out=places).unsqueeze(0)
        return self.words(ids) + self.places(places)
net = Net().cuda()
for ids, y in loader:
    nn.functional.mse_loss(net(ids.cuda()), y.cuda()).backward()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Look for tensors made in a forward that meet the model's own."""
    if not model_on_gpu(context):
        return
    for value, factory, place in (*meetings(context), *looked_up(context)):
        if place != "cpu" or not within_forward(factory.context):
            continue
        yield context.finding(
            RULE,
            factory,
            f"{factory.name} makes a tensor on the CPU, and forward combines it with one on the model's device: "
            "the first step stops",
            evidence=[Evidence("device argument", "not given"), Evidence("combined in", source_text(context, value))],
            related=[(value, "it meets a tensor of the model here")],
            fix=Fix(
                title="make the tensor where the input is",
                instruction="pass device=x.device of the input",
                expected="both tensors are on one device",
            ),
        )
