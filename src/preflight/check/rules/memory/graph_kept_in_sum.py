"""A running sum keeps the graph of every step.

## What it does
Looks for sums over the passes of a loop (`total += loss`, a meter that adds tensors) whose addend still carries the graph of a forward pass.

## Why
The sum is a tensor with a graph of its own that reaches back to the forward pass of every step.
After `backward()` the activations are freed, but the nodes of all graphs stay in host memory, a few hundred bytes for each operation of the network and each step: for a network of 500 operations that is in the order of 100 kB per step, and the memory of the process grows until the sum is reset.
Without a `backward()`, and with `retain_graph=True`, the activations of every batch stay on the device, until the run ends out of memory: that is an error.
Where a loop around begins the sum anew, as each epoch may, or another backward pass frees a part of the graph, how much stays is not known, and it is a warning.

## Fix
Add `loss.item()` or `loss.detach()`.

## When to ignore
When the sum itself is what `backward()` is called on.

## References
- PyTorch documentation, "Frequently asked questions": "Don't accumulate history across your training loop"
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Edit, Evidence, Fix, Place, edits
from preflight.check.queries.evaluations import evaluations_with_gradients
from preflight.check.queries.kept_graphs import FATES, detached_in_place, fate_of_graph, graph_of, used_in_losses
from preflight.check.rule import Rule
from preflight.source.trace import Carry, Store, provenance
from preflight.source.training import TrainingLoop
from preflight.source.values import Known, Obj, Phi, Value, options_of, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="graph-kept-in-sum",
    code="MEM017",
    severity="warning",
    confidence="likely",
    needs=("training_loop",),
    layer="D",
    tags=("memory", "growth"),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total = 0
for x, y in data:
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss
print(total)
""",
    """
import torch
import torch.nn as nn
class Meter:
    def __init__(self):
        self.sum = torch.tensor(0.0)
        self.n = 0
    def update(self, value):
        self.sum += value.cpu()
        self.n += 1
meter = Meter()
net = nn.Linear(10, 2)
opt = torch.optim.Adam(net.parameters())
for x, y in data:
    opt.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    opt.step()
    meter.update(loss)
""",
    """
import argparse, torch
from torch.nn import Linear, functional as F
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
args = parser.parse_args()
model = Linear(10, 2)
opt = torch.optim.SGD(model.parameters(), args.lr)
def train(batches):
    running = 0.0
    for i, batch in enumerate(batches):
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        opt.step()
        opt.zero_grad()
        running = running + loss * len(batch)
        if i % 100 == 99:
            print(running / 100)
            running = 0.0
train(loader)
""",
)
GOOD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total = 0
correct = 0
for tasks in data:
    loss = 0
    for x, y in tasks:
        out = model(x)
        loss += nn.functional.cross_entropy(out, y)
        correct += (out.argmax(1) == y).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.item()
    total += loss.detach()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
mean = torch.zeros(())
for x, y in data:
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        mean += loss
    mean = 0.9 * mean + 0.1 * loss.data
""",
    """
import torch
net = torch.nn.Linear(8, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
def corners(centres):
    boxes = torch.cat((centres[:, :2] * 0.1, torch.exp(centres[:, 2:])), 1)
    boxes[:, 2:] += boxes[:, :2]
    return boxes
for x, y in loader:
    optimizer.zero_grad()
    torch.nn.functional.l1_loss(corners(net(x)), y).backward()
    optimizer.step()
""",
    """
import torch
from collections import defaultdict
from torch import nn
class Meters:
    def __init__(self):
        self.sums = defaultdict(float)
    def update(self, key, value, n=1):
        if isinstance(value, torch.Tensor):
            value = value.item()
        self.sums[key] += value * n
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
meters = Meters()
for x, y in data:
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    meters.update("loss", loss, len(y))
print(meters.sums)
""",
    """
import numpy as np
import torch
from torch import nn
class Meter:
    def __init__(self):
        self.sum = np.zeros(3)
    def update(self, values):
        for i in range(3):
            self.sum[i] += values[i]
model = nn.Linear(10, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
meter = Meter()
for x, y in data:
    losses = (model(x) - y).pow(2).mean(0)
    optimizer.zero_grad()
    losses.sum().backward()
    optimizer.step()
    meter.update(losses)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find sums that a loop carries and whose addends carry graphs."""
    used = used_in_losses(context)
    evaluating = [found.frame for found in evaluations_with_gradients(context)]
    for carry in context.trace.carried:
        addend = _addend(carry)
        if addend is None or any(carry.frame is frame for frame in evaluating) or not _around_training(context, carry):
            continue
        yield from _judge(context, used, carry.name, addend[0], addend[1], _place(addend[0]), _loop(context, carry))
    for store in context.trace.stores:
        change = _stored(store)
        if change is not None and _lasts(context, store) and not _array(store):
            yield from _judge(context, used, store.name, change[0], change[1], store)


def _array(store: Store) -> bool:
    """Whether an item of a NumPy array is set, which holds numbers alone."""
    return any(isinstance(o, Obj) and o.name.startswith("numpy.") for o in options_of(store.target))


def _judge(
    context: Context,
    used: set[int],
    name: str,
    total: Obj,
    value: Value,
    place: Place | None,
    loop: TrainingLoop | None = None,
) -> Iterator[Finding]:
    if id(total) in used or place is None or detached_in_place(context, value):
        return
    source = graph_of(context, value)
    if source is None or (total.context is not None and graph_of(context, total) is None):
        return
    edit = _detach(context, place)
    fate = fate_of_graph(context, loop, value, source) if loop is not None else "freed"
    whole = fate in ("retained", "never")
    stays = (
        f"{FATES[fate]}, so the {'' if whole else 'other '}activations of every pass stay in memory"
        if fate != "freed"
        else _FREED
    )
    yield context.finding(
        RULE,
        place,
        f"{name} adds up tensors with their graph: {stays}",
        severity="error" if whole else None,
        evidence=[Evidence("added in each pass", "tensor with a graph"), Evidence("detached", False)],
        related=[(source, "the forward pass whose graph it carries")],
        fix=Fix(
            title="add the number or the detached tensor",
            edits=edits(edit) if edit is not None else (),
            instruction="add value.item() or value.detach()",
            expected="the graph of a step is freed after the step",
        ),
    )


_FREED = "the graph of every pass stays referenced, and memory grows with each step"


def _loop(context: Context, carry: Carry) -> TrainingLoop | None:
    """The training loop each pass of which surely adds to a sum that it carries: nothing sets it back on the way.

    None too where a loop around it begins the sum anew, as each epoch does: it holds the graphs of one epoch at most.
    """
    around = carry.frame.parent.loops() if carry.frame.parent is not None else []
    if len(list(options_of(carry.final))) != 1 or (around and isinstance(settle(carry.before), Known)):
        return None
    return next((loop for loop in context.reading.loops if loop.frame is carry.frame), None)


def _around_training(context: Context, carry: Carry) -> bool:
    """Whether the loop that carries the sum is a training loop."""
    return any(loop.frame is carry.frame or loop.micro is carry.frame for loop in context.reading.loops)


def _addend(carry: Carry) -> tuple[Obj, Value] | None:
    """The sum at the end of a pass and what is added, for ``total = total + value``."""
    for option in options_of(carry.final):
        if isinstance(option, Obj) and option.kind == "op" and option.name == "+":
            for mine, other in ((0, 1), (1, 0)):
                if _is(option.args[mine], carry.mark):
                    return option, option.args[other]
    return None


def _is(value: Value, mark: Value) -> bool:
    """Whether a value is what was carried, plain or scaled."""
    if value is mark or (isinstance(value, Phi) and any(p is mark for p in provenance(value, 30))):
        return True
    base = settle(value)
    if isinstance(base, Obj) and base.kind == "op" and base.name in ("*", "+"):
        return any(_is(a, mark) for a in base.args)
    return False


def _stored(store: Store) -> tuple[Obj, Value] | None:
    """The sum and the addend of ``self.total += value``."""
    value = settle(store.value)
    statement = store.node
    if isinstance(value, Obj) and value.kind == "op" and value.name == "+" and isinstance(statement, ast.AugAssign):
        return value, value.args[1]
    return None


def _lasts(context: Context, store: Store) -> bool:
    """Whether what is stored in a training loop is not set anew in each of its passes."""
    loop = next((loop for loop in context.reading.loops if store.context.within(loop.frame)), None)
    if loop is None:
        return False
    holders = [o for o in options_of(store.target) if isinstance(o, Obj)]
    if holders and all(o.context is not None and o.context.within(loop.frame) for o in holders):
        return False  # made in this pass, and gone with it
    targets = {id(o) for o in options_of(store.target)}
    return not any(
        other.name == store.name
        and not isinstance(other.node, ast.AugAssign)
        and other.context.within(loop.frame)
        and any(id(o) in targets for o in options_of(other.target))
        for other in context.trace.stores
    )


def _place(total: Obj) -> Place | None:
    return (total.site.script, total.site.node) if total.site is not None else None


def _detach(context: Context, place: Place) -> Edit | None:
    """Detach the addend of an augmented assignment, where it is a plain name."""
    script, node = context.at(place)
    if isinstance(node, ast.AugAssign) and isinstance(node.value, (ast.Name, ast.Attribute)):
        return context.replace((script, node.value), f"{script.segment(node.value)}.detach()")
    return None
