"""The loss is rebuilt from a number, so no gradient flows.

## What it does
Follows the loss of a `backward()` back to where it comes from, and finds that all of it passed through `.item()`, `.detach()`, `.data` or `float()`.

## Why
These hand over the value without the graph behind it.
A tensor made from it with `requires_grad=True` lets `backward()` run without an error, and gives a gradient to nothing but itself: no weight changes.

## Fix
Call `backward()` on the loss itself; detach only what is logged.

## When to ignore
Never, in a loop that is to train.

## References
- PyTorch documentation, "Autograd mechanics"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.backward_graph import CUTS
from preflight.check.queries.cut_off import behind, nothing_left, trained_themselves
from preflight.check.rule import Rule
from preflight.source.trace import Event, provenance
from preflight.source.training import loss_of
from preflight.source.values import Known, Obj, Value
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="loss-rebuilt-from-number",
    code="AUT001",
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
    loss = nn.functional.cross_entropy(model(x), y)
    loss = torch.tensor(loss.item(), requires_grad=True)
    loss.backward()
    optimizer.step()
""",
    """
from torch.autograd import Variable as V
import torch.nn as nn
from torch.optim import Adam
net = nn.Linear(4, 4)
opt = Adam(net.parameters())
def total(parts):
    return V(sum(p.data for p in parts), requires_grad=True)
for x in data:
    opt.zero_grad()
    total([net(x).mean(), net(x).pow(2).mean()]).backward()
    opt.step()
""",
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--weight", type=float, default=0.5)
args = parser.parse_args()
class Trainer:
    def __init__(self):
        self.net = torch.nn.Linear(4, 1)
        self.opt = torch.optim.Adam(self.net.parameters())
    def update(self, x):
        self.opt.zero_grad()
        cost = (self.net(x).mean() * args.weight).detach().requires_grad_()
        cost.backward()
        self.opt.step()
t = Trainer()
for x in data:
    t.update(x)
""",
    """
import torch, torch.nn.functional as F
from torch.utils.data import DataLoader
from shop import Shirts
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
opt = torch.optim.AdamW(net.parameters())
for x, y in DataLoader(Shirts("train"), batch_size=32, shuffle=True):
    opt.zero_grad()
    guess = net(x.cuda()).argmax(dim=1)
    F.mse_loss(guess.float(), y.float().cuda()).backward()
    opt.step()
""",
    """
import torch
from torch.utils.data import DataLoader
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
criterion = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
opt = torch.optim.AdamW(net.parameters())
for x, y in DataLoader(flowers, batch_size=32, shuffle=True):
    opt.zero_grad()
    scores = net(x.cuda())
    loss = criterion(scores.detach(), y.cuda())
    loss.backward()
    opt.step()
""",
)

GOOD = (
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
model, centers = nn.Linear(10, 2), nn.Linear(2, 2)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(centers.parameters(), lr=0.1)
for x, y in DataLoader(dataset, batch_size=8):
    optimizer.zero_grad()
    criterion(centers(model(x).detach()), y).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total = 0.0
for x, y in data:
    optimizer.zero_grad()
    out = model(x)
    weight = out.detach().abs().mean().item()
    loss = nn.functional.cross_entropy(out, y) / weight
    total += loss.item()
    loss.backward()
    optimizer.step()
""",
    """
import torch
image = torch.tensor([0.5, 0.5], requires_grad=True)
optimizer = torch.optim.Adam([image])
for step in range(100):
    optimizer.zero_grad()
    loss = (image - 1).pow(2).sum()
    loss.backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
actor, critic = nn.Linear(4, 2), nn.Linear(4, 1)
optimizer = torch.optim.Adam(actor.parameters())
for x in data:
    optimizer.zero_grad()
    advantage = critic(x).detach()
    loss = -(actor(x).log_softmax(-1)[:, 0] * advantage).mean()
    loss.backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
actor = nn.Linear(4, 2)
temperature = torch.tensor(0.1)
temperature.requires_grad = True
optimizer = torch.optim.Adam([temperature])
for x in data:
    optimizer.zero_grad()
    loss = -(temperature.exp() * (actor(x) - 2).detach()).mean()
    loss.backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
tower = nn.Linear(8, 4)
optimizer = torch.optim.Adam(tower.parameters())
for x, y in DataLoader(pairs, batch_size=512):
    optimizer.zero_grad()
    kept = tower(x)
    leaves = kept.detach().requires_grad_()
    nn.functional.cross_entropy(leaves @ leaves.t(), y).backward()
    kept.backward(leaves.grad)
    optimizer.step()
""",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
net = nn.Linear(8, 4)
for x, y in DataLoader(pictures, batch_size=1):
    noise = torch.zeros(4).requires_grad_()
    loss = nn.functional.mse_loss(noise, net(x).detach())
    loss.backward()
""",
    """
import torch
from torch import nn
flow = nn.Linear(4, 4)
@torch.inference_mode()
def velocity(x):
    return flow(x)
@torch.no_grad()
def invert(latents, sizes):
    for size in sizes:
        guess = (latents + size * velocity(latents)).clone().detach().requires_grad_(True)
        optimizer = torch.optim.Adam([guess], lr=0.01)
        with torch.enable_grad():
            for _ in range(5):
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(guess, latents + size * velocity(guess))
                loss.backward()
                optimizer.step()
        latents = guess.detach()
    return latents
invert(torch.randn(1, 4), [0.1, 0.2])
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find losses in whose graph nothing is left but numbers, while a module is behind the cut."""
    trained = trained_themselves(context.reading)
    for loop in context.reading.loops:
        for backward in loop.backwards:
            loss = loss_of(backward)
            if loss is None or (backward.args and backward.name == ".backward" and loss is not backward.receiver):
                continue
            if any(_given_gradient(other) for other in loop.backwards):
                continue  # the gradient is handed on past the cut
            cut = _cut(loss, trained)
            if cut is None:
                continue
            yield context.finding(
                RULE,
                backward,
                f"the loss comes through {_shown(cut)}, which leaves the graph behind: no gradient reaches the model",
                evidence=[
                    Evidence("what cuts the graph", _shown(cut)),
                    Evidence("modules that the gradient reaches", 0),
                ],
                fix=Fix(
                    title="call backward() on the loss itself",
                    safe=False,
                    instruction=f"leave out {_shown(cut)} between the model and backward()",
                    expected="the gradient reaches the weights",
                ),
                related=[(cut, "the graph ends here")],
            )


def _cut(loss: Value, trained: frozenset[int]) -> Obj | None:
    """What cuts the graph; None when something may be left behind the loss, or there was no module to reach."""
    if not nothing_left(loss, trained):
        return None
    cuts = [v for v in provenance(loss, 400) if isinstance(v, Obj) and _cutting(v)]
    return next((c for c in cuts if behind(c)), None)


def _given_gradient(backward: Event) -> bool:
    """Whether a backward pass begins with a gradient that another one made."""
    given = [*backward.args, *(backward.kwargs[k] for k in ("gradient", "grad_tensors") if k in backward.kwargs)]
    return any(isinstance(p, Obj) and p.kind == "attr" and p.name == "grad" for v in given for p in provenance(v, 20))


def _cutting(value: Obj) -> bool:
    if value.kind == "attr":
        return value.name == "data"
    return (
        value.kind == "call" and value.name in CUTS and value.name not in ("torch.tensor", "torch.as_tensor")
    ) or isinstance(value, Known)


def _shown(value: Obj) -> str:
    name = value.name.rpartition(".")[2]
    return f".{name}" if value.kind == "attr" else f".{name}()" if value.name.startswith(".") else f"{name}()"
