"""One of several optimizers is never cleared.

## What it does
In a loop with several optimizers, looks for one that steps while only the gradients of the others are cleared.

## Why
PyTorch adds new gradients to the old ones.
The parameters of the forgotten optimizer are moved by the sum of all gradients since the start, which grows until that part of the model diverges.

## Fix
Call `zero_grad()` on every optimizer that steps.

## When to ignore
When the gradients are cleared by code that cannot be seen from the script.

## References
- PyTorch, "Zeroing out gradients in PyTorch" (recipes)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.updates import Update, managed, updates
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import options_of
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="optimizer-never-zeroed",
    code="OPT017",
    severity="error",
    confidence="likely",
    needs=("training_loop", "optimizer", "complete"),
    layer="D",
    tags=("optimizer",),
)

BAD = (
    """
import torch
from torch import nn
G, D = nn.Linear(8, 8), nn.Linear(8, 1)
opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
for x in data:
    opt_d.zero_grad()
    D(x).mean().backward()
    opt_d.step()
    D(G(x)).mean().backward()
    opt_g.step()
""",
    """
from torch.optim import Adam as A
import torch.nn as nn
class Trainer:
    def __init__(self):
        self.encoder, self.decoder = nn.Linear(10, 2), nn.Linear(2, 10)
        self.first, self.second = A(self.encoder.parameters()), A(self.decoder.parameters())
    def update(self, x):
        self.first.zero_grad()
        nn.functional.mse_loss(self.decoder(self.encoder(x)), x).backward()
        self.first.step()
        self.second.step()
t = Trainer()
for x in loader:
    t.update(x)
""",
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
args = parser.parse_args()
body, head = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)
slow = torch.optim.SGD(body.parameters(), lr=args.lr / 10)
fast = torch.optim.SGD(head.parameters(), lr=args.lr)
for x in data:
    head.zero_grad()
    head(body(x)).mean().backward()
    slow.step()
    fast.step()
""",
)

GOOD = (
    """
import torch
from torch import nn
def made(kinds):
    nets, drivers = {}, {}
    nets["encoder"], nets["decoder"] = nn.Linear(8, 4), nn.Linear(4, 8)
    for kind in kinds:
        drivers[kind] = torch.optim.Adam(nets[kind].parameters())
    drivers["decoder"] = torch.optim.Adam(nets["decoder"].parameters())
    return nets, drivers
nets, drivers = made(kinds_of_run())
for x in loader:
    for driver in drivers.values():
        driver.zero_grad()
    encode, decode = nets["encoder"], nets["decoder"]
    nn.functional.mse_loss(decode(encode(x)), x).backward()
    drivers["encoder"].step()
    drivers["decoder"].step()
""",
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 1)
    def forward(self, x):
        return self.b(self.a(x))
net = Net()
one, two = torch.optim.Adam(net.a.parameters()), torch.optim.Adam(net.b.parameters())
for x in data:
    net.zero_grad()
    net(x).mean().backward()
    one.step()
    two.step()
""",
    """
import torch
from torch import nn
G, D = nn.Linear(8, 8), nn.Linear(8, 1)
optimizers = [torch.optim.Adam(G.parameters()), torch.optim.SGD(D.parameters(), lr=0.1)]
for x in data:
    for optimizer in optimizers:
        optimizer.zero_grad()
    D(G(x)).mean().backward()
    for optimizer in optimizers:
        optimizer.step()
""",
    """
import torch
from torch import nn
G, D = nn.Linear(8, 8), nn.Linear(8, 1)
opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
def clear(*modules):
    for module in modules:
        for p in module.parameters():
            p.grad = None
for x in data:
    opt_d.zero_grad()
    D(x).mean().backward()
    opt_d.step()
    clear(G)
    D(G(x)).mean().backward()
    opt_g.step()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find updates without a clearing, beside others that have one."""
    found = [u for u in updates(context) if not managed(context, u.optimizer)]
    for update in found:
        others = [u for u in found if u.loop is update.loop and u is not update and u.zeros]
        if not others or update.zeros or update.unsure or update.alone or _elsewhere(context, update):
            continue
        backwards = update.backwards(sure=True)
        if not backwards or not update.holding.complete:
            continue
        name = update.name()
        edit = (
            context.insert_before(backwards[0], f"{name}.zero_grad()") if name.replace(".", "").isidentifier() else None
        )
        yield context.finding(
            RULE,
            update.steps[0],
            f"{name} steps, and only the gradients of other optimizers are cleared: its gradients add up over all steps",
            evidence=[
                Evidence("optimizers that step in the loop", len(others) + 1),
                Evidence(f"calls that clear the gradients of {name}", 0),
            ],
            fix=Fix(
                title=f"call {name}.zero_grad() before backward()",
                safe=False,
                edits=edits(edit) if edit is not None and len(update.loop.backwards) == 1 else (),
                instruction=f"call {name}.zero_grad() once per step",
                expected="each step uses the gradient of its own batch",
            ),
            related=[
                (others[0].zeros[0], "another optimizer is cleared here"),
                (backwards[0], "gradients are computed here"),
            ],
        )


def _elsewhere(context: Context, update: Update) -> bool:
    """Whether its gradients are cleared outside the loop, by assignment, or by code that is given it or its models."""
    if context.trace.on(update.optimizer, "zero_grad") or any(_each_of_several(e) for e in update.loop.zeros):
        return True
    for store in context.trace.stores:
        if store.name == "grad" and store.context.within(update.loop.frame):
            return True
    owners = {id(p.owner) for p in update.holding.parts} | {id(update.optimizer)}
    for event in update.loop.events:
        if event.name in (".zero_", ".fill_"):
            return True
        if event.inlined or event.name.startswith((".", "builtins.", "torch.")) or event.name == "()":
            continue
        if any(id(o) in owners for a in (*event.args, *event.kwargs.values()) for o in options_of(a)):
            return True
    return False


def _each_of_several(event: Event) -> bool:
    """Whether a loop clears what it goes through, one after the other: which optimizers these are is known in part."""
    node = event.node
    receiver = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
    if not isinstance(receiver, ast.Name):
        return False
    loops = [frame.node for frame in event.context.frames() if frame.kind == "loop"]
    return any(
        isinstance(part, ast.Name) and part.id == receiver.id
        for loop in loops
        if isinstance(loop, (ast.For, ast.AsyncFor))
        for part in ast.walk(loop.target)
    )
