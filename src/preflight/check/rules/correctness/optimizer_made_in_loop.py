"""An optimizer is made anew in a loop, and forgets what it has gathered.

## What it does
Looks for optimizers that are made inside of the loop over batches or over epochs for parameters that were there before it, where their state matters: momentum, the moments of Adam.

## Why
Adam divides by an average of squared gradients, and momentum adds up the gradients of many steps; a new optimizer begins with neither.
Made for each batch, Adam's step is the sign of one gradient; made for each epoch, every epoch begins with steps of the wrong size.
A scheduler that was made before still sets the rate of the old optimizer.

## Fix
Make the optimizer once, before the loops; change its rate through `param_groups` or a scheduler.

## When to ignore
When the state is to be thrown away on purpose, as for rounds of an algorithm that only looks like epochs.

## References
- PyTorch, `torch.optim`, "Constructing it"
- Kingma and Ba, Adam: A Method for Stochastic Optimization
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.counts import over_data, peeled
from preflight.check.queries.parameters import holding_of
from preflight.check.queries.steps import each_pass
from preflight.check.queries.updates import Update, updates
from preflight.check.rule import Rule
from preflight.source.trace import Context as Frame
from preflight.source.values import Known, Obj, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="optimizer-made-in-loop",
    code="OPT021",
    severity="warning",
    confidence="likely",
    needs=("training_loop",),
    layer="D",
    tags=("optimizer",),
)

BAD = (
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(10, 2)
loader = DataLoader(dataset, batch_size=32, shuffle=True)
for epoch in range(10):
    for x, y in loader:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
""",
    """
import torch
import torch.nn as nn
from torch.utils.data import DataLoader
def train(net, loader, lr):
    opt = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    for x, y in loader:
        opt.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        opt.step()
def main():
    net = nn.Linear(10, 2)
    loader = DataLoader(dataset, batch_size=32, shuffle=True)
    for epoch in range(10):
        train(net, loader, 0.1 * 0.95**epoch)
main()
""",
    """
import torch
class Trainer:
    def __init__(self):
        self.net = torch.nn.Linear(8, 2)
        self.data = torch.utils.data.DataLoader(samples, batch_size=8)
    def step(self, x):
        opt = torch.optim.RMSprop(self.net.parameters())
        opt.zero_grad()
        self.net(x).mean().backward()
        opt.step()
    def fit(self):
        for x in self.data:
            self.step(x)
Trainer().fit()
""",
)

GOOD = (
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
for fold in range(5):
    model = nn.Linear(10, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for x, y in DataLoader(folds[fold], batch_size=32, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
""",
    """
import copy, torch
from torch import nn
from torch.utils.data import DataLoader
server = nn.Linear(10, 2)
loaders = [DataLoader(part, batch_size=32) for part in parts]
for turn in range(100):
    for loader in loaders:
        client = copy.deepcopy(server)
        optimizer = torch.optim.SGD(client.parameters(), lr=0.1, momentum=0.9)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(client(x), y).backward()
            optimizer.step()
""",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(10, 2)
loader = DataLoader(dataset, batch_size=32)
for task in range(5):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(10):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
""",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Sequential(nn.Linear(10, 10), nn.Linear(10, 2))
loader = DataLoader(dataset, batch_size=32)
optimizer = torch.optim.Adam(model[1].parameters())
for epoch in range(10):
    if epoch == 5:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
""",
    """
import torch
from torch.utils.data import DataLoader
net = torch.nn.Linear(8, 8)
for x in DataLoader(pictures, batch_size=1):
    noise = torch.zeros(8, requires_grad=True)
    optimizer = torch.optim.Adam([noise])
    for _ in range(50):
        optimizer.zero_grad()
        net(x + noise).mean().backward()
        optimizer.step()
""",
    """
import torch
from torch.utils.data import DataLoader
net = torch.nn.Linear(8, 8)
loader = DataLoader(pictures, batch_size=8)
for epoch in range(90):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1 * 0.5 ** (epoch // 30))
    for x in loader:
        optimizer.zero_grad()
        net(x).mean().backward()
        optimizer.step()
""",
)

_STATEFUL = frozenset(
    {
        "Adam",
        "AdamW",
        "Adamax",
        "NAdam",
        "RAdam",
        "Adagrad",
        "Adadelta",
        "Adafactor",
        "RMSprop",
        "SparseAdam",
        "Rprop",
        "ASGD",
        "Muon",
    }
)


def check(context: Context) -> Iterator[Finding]:
    """Find optimizers with a state that are made in a loop which their parameters do not come from."""
    for update in updates(context):
        optimizer = update.optimizer
        if optimizer.context is None or not _keeps_state(optimizer):
            continue
        loop, what = _loop(context, update)
        if loop is None or not each_pass(optimizer.context, loop) or _renewed(context, optimizer, loop):
            continue
        yield context.finding(
            RULE,
            optimizer,
            f"{optimizer.name.rpartition('.')[2]} is made anew for every {what}: its state is lost each time",
            evidence=[Evidence("made", f"for every {what}")],
            fix=Fix(
                title="make the optimizer once, before the loops",
                safe=False,
                instruction="move the line before the loops; change the rate with a scheduler or in param_groups",
                expected="momentum and averages go on from step to step",
            ),
            related=[(update.steps[0], "it steps here")],
            severity="error" if what == "batch" else None,
        )


def _keeps_state(optimizer: Obj) -> bool:
    """Whether it gathers something from step to step."""
    if optimizer.cls is not None or not optimizer.name.startswith("torch.optim."):
        return False
    kind = optimizer.name.rpartition(".")[2]
    if kind == "SGD":
        momentum = optimizer.argument(2, "momentum")
        given = settle(momentum) if momentum is not None else None
        return isinstance(given, Known) and bool(given.value)
    return kind in _STATEFUL


def _loop(context: Context, update: Update) -> tuple[Frame | None, str]:
    """The loop over batches or epochs in which the optimizer is made, and what it counts; None where it is another one."""
    assert update.optimizer.context is not None
    around, batches = update.optimizer.context.loops(), update.loop.frame
    if not around or not over_data(context, batches):
        return None, ""
    if around[0] is batches:
        return batches, "batch"
    outer = update.loop.outer
    if outer and around[0] is outer[0] and _counts(outer[0]) and not _made_within(peeled(batches.value), outer[0]):
        return outer[0], "epoch"
    return None, ""


def _counts(loop: Frame) -> bool:
    """Whether a loop only counts: ``for epoch in range(...)``."""
    base = peeled(loop.value)
    counts = isinstance(base, Obj) and (base.name == "builtins.range" or base.name.endswith("trange"))
    named = isinstance(loop.node, ast.For) and "epoch" in ast.dump(loop.node.target)
    return counts and named


def _made_within(value: object, loop: Frame) -> bool:
    return isinstance(value, Obj) and (value.context is None or value.context.within(loop))


def _renewed(context: Context, optimizer: Obj, loop: Frame) -> bool:
    """Whether what it holds is made or put back in the loop too, or which parameters are trained changes there."""
    holding = holding_of(context.reading, optimizer)
    owners = [part.owner for part in holding.parts]
    if not owners or any(_made_within(owner, loop) for owner in owners):
        return True
    for event in context.trace.events:
        if event.context.within(loop) and event.name in (
            ".load_state_dict",
            ".requires_grad_",
            "copy.deepcopy",
            ".reset_parameters",
        ):
            return True
    return loop.node is not None and "'requires_grad'" in ast.dump(loop.node)
