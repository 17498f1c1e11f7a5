"""The loss that is trained on is computed under no_grad.

## What it does
Looks for a `backward()` on a loss that was computed inside `torch.no_grad()` or `torch.inference_mode()`, or whose networks all ran there.

## Why
Nothing is recorded there, so `backward()` raises `RuntimeError: element 0 of tensors does not require grad`.

## Fix
Call the networks that are trained, and compute the loss of the training step, outside of the block.

## When to ignore
Never.

## References
- PyTorch documentation, "Locally disabling gradient computation"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.backward_graph import grad_mode
from preflight.check.queries.cut_off import is_network_call, nothing_left, trained_themselves
from preflight.check.rule import Rule
from preflight.source.trace import Context as Frame
from preflight.source.trace import Event, name_of, provenance
from preflight.source.training import loss_of
from preflight.source.values import Choice, Obj
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="forward-without-gradients",
    code="AUT005",
    severity="error",
    confidence="certain",
    needs=("training_loop",),
    layer="D",
    tags=("autograd",),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    optimizer.zero_grad()
    with torch.no_grad():
        loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
""",
    """
import torch as t
from torch.optim import Adam
net = t.nn.Linear(4, 4)
opt = Adam(net.parameters())
@t.inference_mode()
def cost(x):
    return net(x).pow(2).mean()
for x in data:
    opt.zero_grad()
    cost(x).backward()
    opt.step()
""",
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.5)
args = parser.parse_args()
class Trainer:
    def __init__(self):
        self.net = torch.nn.Linear(4, 1)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=args.lr)
    @torch.no_grad()
    def update(self, x):
        self.opt.zero_grad()
        self.net(x).mean().backward()
        self.opt.step()
t = Trainer()
for x in data:
    t.update(x)
""",
    """
import torch
from torch.utils.data import DataLoader
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
criterion = torch.nn.CrossEntropyLoss()
opt = torch.optim.AdamW(net.parameters())
for x, y in DataLoader(flowers, batch_size=32, shuffle=True):
    with torch.no_grad():
        scores = net(x)
    loss = criterion(scores, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
)

GOOD = (
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
backbone, head = nn.Linear(10, 8), nn.Linear(8, 2)
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
for x, y in DataLoader(dataset, batch_size=8):
    with torch.no_grad():
        features = backbone(x)
    loss = nn.functional.cross_entropy(head(features), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
teacher, model = nn.Linear(10, 2), nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in data:
    optimizer.zero_grad()
    with torch.no_grad():
        target = teacher(x)
    nn.functional.mse_loss(model(x), target).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
@torch.no_grad()
def update(x):
    optimizer.zero_grad()
    with torch.enable_grad():
        loss = model(x).mean()
    loss.backward()
    optimizer.step()
for x in data:
    update(x)
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def run(loader, train):
    with torch.set_grad_enabled(train):
        for x in loader:
            loss = model(x).mean()
            if train:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
run(a, True)
run(b, False)
""",
    """
import argparse, torch
from torch import nn
parser = argparse.ArgumentParser()
parser.add_argument("--try-out", action="store_true")
args = parser.parse_args()
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def step(x, y, train=False):
    mode = torch.enable_grad() if train else torch.no_grad()
    if args.try_out:
        mode = torch.enable_grad()
    with mode:
        loss = nn.functional.cross_entropy(model(x), y)
    if train or args.try_out:
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return loss.item()
for x, y in valid:
    step(x, y)
""",
)


_MADE = frozenset(
    {".requires_grad_", "torch.tensor", "torch.autograd.Variable", "torch.nn.Parameter", "torch.zeros", "torch.ones"}
)


_OFF = ("torch.no_grad", "torch.inference_mode", "torch.set_grad_enabled")


def check(context: Context) -> Iterator[Finding]:
    """Find losses that were made where gradients are off."""
    trained = trained_themselves(context.reading)
    for loop in context.reading.loops:
        for backward in loop.backwards:
            loss = loss_of(backward)
            if not isinstance(loss, Obj) or loss.kind not in ("call", "op"):
                continue
            if loss.name in _MADE or "requires_grad" in loss.kwargs:
                continue
            if backward.context.shadow and _chosen(loss.context):
                continue  # where this backward runs, gradients may well be on
            if grad_mode(loss.context) is False:
                yield _finding(context, backward, loss, "the loss was computed where gradients are off")
                break
            network = _unrecorded(loss, trained)
            if network is not None:
                yield _finding(context, backward, network, "the network ran where gradients are off")
                break


def _chosen(frame: Frame | None) -> bool:
    """Whether gradients are on or off at a place by one of several managers: the defaults need not lead to that one."""
    managers = frame.withs() if frame is not None else []
    return any(isinstance(m, Choice) and any(name_of(o) in _OFF for o in m.options) for m in managers)


def _unrecorded(loss: Obj, trained: frozenset[int]) -> Obj | None:
    """The call of a network under ``no_grad`` that the loss rests on; None where anything else may have weights."""
    if not nothing_left(loss, trained):
        return None
    off = [v for v in provenance(loss, 400) if is_network_call(v) and isinstance(v, Obj)]
    return next((v for v in off if grad_mode(v.context) is False), None)


def _finding(context: Context, backward: Event, made: Obj, said: str) -> Finding:
    return context.finding(
        RULE,
        backward,
        f"{said}: backward() raises an error",
        evidence=[Evidence("gradients there", "off")],
        fix=Fix(
            title="compute the loss where gradients are on",
            safe=False,
            instruction="move the forward pass and the loss out of no_grad (inference_mode)",
            expected="backward() finds a graph",
        ),
        related=[(made, "this runs under no_grad")],
    )
