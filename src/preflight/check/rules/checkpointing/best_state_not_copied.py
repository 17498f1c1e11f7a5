"""The best weights are remembered by reference, not copied.

## What it does
Looks for `best = model.state_dict()` in a loop that goes on training, where the remembered state is used later.
A state that is remembered after every so many epochs is no best one, and nothing is said of it.

## Why
`state_dict()` returns the live tensors of the model, not a copy.
The optimizer changes them in place, so the remembered "best" state is always the last state.
Early stopping that restores it restores nothing.

## Fix
Remember `copy.deepcopy(model.state_dict())`, or save it to a file.

## When to ignore
When nothing trains the model between remembering and use.

## References
- PyTorch, "Saving and Loading Models", the warning about `best_model_state`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.options import imported_as
from preflight.check.queries.states import remembered_states
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="best-state-not-copied",
    code="CKP010",
    severity="error",
    confidence="likely",
    needs=("training_loop",),
    tags=("checkpoint",),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
best, best_state = 0.0, None
for epoch in range(10):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    accuracy = evaluate(model)
    if accuracy > best:
        best = accuracy
        best_state = model.state_dict()
model.load_state_dict(best_state)
""",
    """
import torch as t
import torch.nn as nn
class Stopper:
    def __init__(self):
        self.best = float("inf")
        self.weights = None
    def see(self, loss, net):
        if loss < self.best:
            self.best = loss
            self.weights = net.state_dict()
net = nn.Linear(10, 2)
opt = t.optim.Adam(net.parameters())
stopper = Stopper()
for epoch in range(10):
    for x, y in loader:
        opt.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        opt.step()
    stopper.see(validate(net), net)
net.load_state_dict(stopper.weights)
""",
    """
import argparse, torch
from torch import nn
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10)
args = parser.parse_args()
def train(model, optimizer, loader):
    best = None
    lowest = 1e9
    for epoch in range(args.epochs):
        total = 0.0
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        if total < lowest:
            lowest = total
            best = {"epoch": epoch, "model": model.state_dict()}
    torch.save(best, "best.pt")
net = nn.Linear(10, 2)
train(net, torch.optim.SGD(net.parameters(), lr=0.1), loader)
""",
    """
import torch, copy
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if better(model):
        best_state = copy.copy(model.state_dict())
model.load_state_dict(best_state)
""",
)

GOOD = (
    """
import copy, torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
best, best_state = 0.0, None
for epoch in range(10):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    accuracy = evaluate(model)
    if accuracy > best:
        best = accuracy
        best_state = copy.deepcopy(model.state_dict())
        other_state = {k: v.cpu().clone() for k, v in model.state_dict().items()}
model.load_state_dict(best_state)
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    state = {"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(state, "last.pt")
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(60):
    for phase in ["train", "val"]:
        for x, y in loaders[phase]:
            loss = nn.functional.cross_entropy(model(x), y)
            if phase == "train":
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        if phase == "val" and epoch % 10 == 9:
            last_weights = model.state_dict()
            torch.save(last_weights, f"epoch_{epoch}.pt")
model.load_state_dict(last_weights)
torch.save(model.state_dict(), "last.pt")
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
target = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), target(x))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    weights = model.state_dict()
    target.load_state_dict(weights)
weights = model.state_dict()
torch.save(weights, "last.pt")
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find remembered states that are used after more training."""
    for state, use, shallow in remembered_states(context):
        made = context.reading.event_of(state)
        whole = context.reading.script.segment(state.site.node) if state.site is not None else ""
        module = imported_as(context, "copy")
        edit = None
        if made is not None and module and not shallow and made.script is context.reading.script and whole:
            edit = context.replace(made, f"{module}.deepcopy({whole})")
        yield context.finding(
            RULE,
            made or state,
            "the best weights are kept by reference"
            + (" (copy.copy copies the names, not the tensors)" if shallow else "")
            + ": training goes on changing these tensors, so what is used later is the last state",
            evidence=[
                Evidence(
                    "what is remembered",
                    whole or "state_dict()",
                    arithmetic="state_dict() shares memory with the model",
                )
            ],
            fix=Fix(
                title="remember a deep copy",
                edits=edits(edit) if edit is not None else (),
                instruction="import copy, and remember copy.deepcopy(model.state_dict())",
                expected="the restored weights are those of the best epoch",
            ),
            related=[(use, "the remembered state is used here")],
        )
