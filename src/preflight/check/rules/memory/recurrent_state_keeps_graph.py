"""The recurrent state is carried over without detaching it.

## What it does
Looks for a state that a network returns in one training step and is given in the next, with a `backward()` in each step and no `detach()` in between.

## Why
The state carries the graph of all earlier steps.
The second `backward()` walks into the graph of the first step, whose activations are already freed, and raises "Trying to backward through the graph a second time".
With `retain_graph=True` it does not fail, but each step keeps and walks the graphs of all steps before: memory and time grow with every step.

## Fix
Detach the state before it is used again: `state = state.detach()`, for an LSTM both parts.

## When to ignore
When the state is made anew at the start of each step by code that cannot be seen.

## References
- PyTorch examples, word-level language model (`repackage_hidden`)
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.kept_graphs import graph_of
from preflight.check.rule import Rule
from preflight.source.evaluate.library.methods import is_module
from preflight.source.trace import Carry, Event, provenance
from preflight.source.training import TrainingLoop
from preflight.source.values import Choice, Known, Obj, Seq, Value, options_of
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="recurrent-state-keeps-graph",
    code="MEM013",
    severity="error",
    confidence="likely",
    needs=("training_loop", "forward"),
    layer="D",
    tags=("memory", "recurrent"),
)

BAD = (
    """
import torch
from torch import nn
rnn = nn.GRU(10, 20)
head = nn.Linear(20, 10)
optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)
state = torch.zeros(1, 8, 20)
for x, y in data:
    out, state = rnn(x, state)
    loss = nn.functional.cross_entropy(head(out), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    """
import torch
import torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(10, 20)
        self.head = nn.Linear(20, 10)
    def forward(self, x, hidden):
        out, hidden = self.lstm(x, hidden)
        return self.head(out), hidden
net = Net()
opt = torch.optim.Adam(net.parameters())
hidden = (torch.zeros(1, 8, 20), torch.zeros(1, 8, 20))
for x, y in loader:
    opt.zero_grad()
    scores, hidden = net(x, hidden)
    nn.functional.cross_entropy(scores, y).backward(retain_graph=True)
    opt.step()
""",
    """
import argparse, torch
from torch.nn import Linear, RNNCell, functional as F
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
args = parser.parse_args()
cell, head = RNNCell(10, 20), Linear(20, 10)
opt = torch.optim.SGD(list(cell.parameters()) + list(head.parameters()), args.lr)
def train(batches):
    h = None
    for x, y in batches:
        h = cell(x, h)
        loss = F.cross_entropy(head(h), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
train(loader)
""",
)
GOOD = (
    """
import torch
from torch import nn
class Remembering(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.GRUCell(8, 16), nn.Linear(16, 8)
    def forward(self, x, state):
        state = self.cell(x, state.detach())
        return self.out(state), state
net = Remembering()
optimizer = torch.optim.Adam(net.parameters())
state = torch.zeros(4, 16)
for x, y in loader:
    optimizer.zero_grad()
    found, state = net(x, state)
    nn.functional.mse_loss(found, y).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
class Remembering(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.GRUCell(8, 16), nn.Linear(16, 8)
    def cut(self, state):
        if isinstance(state, torch.Tensor):
            return state.detach()
        return tuple(self.cut(part) for part in state)
    def forward(self, x, state):
        state = self.cut(state)
        for step in range(x.shape[1]):
            state = self.cell(x[:, step], state)
        return self.out(state), state
net = Remembering()
optimizer = torch.optim.Adam(net.parameters())
state = torch.zeros(4, 16)
for x, y in loader:
    optimizer.zero_grad()
    found, state = net(x, state)
    nn.functional.mse_loss(found, y).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
rnn = nn.LSTM(10, 20)
head = nn.Linear(20, 10)
optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)
def repackage(h):
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage(v) for v in h)
state = (torch.zeros(1, 8, 20), torch.zeros(1, 8, 20))
for x, y in data:
    state = repackage(state)
    out, state = rnn(x, state)
    loss = nn.functional.cross_entropy(head(out), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
cell, head = nn.RNNCell(10, 20), nn.Linear(20, 10)
optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
h = torch.zeros(8, 20)
for x, y in data:
    h = torch.zeros(8, 20)
    loss = 0
    for t in range(100000):
        h = cell(x[t], h)
        loss = loss + nn.functional.cross_entropy(head(h), y[t])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find states that flow from a network's output in one pass into a network in the next, with their graph."""
    for loop in context.reading.loops:
        if loop.micro is not None or not loop.steps:
            continue
        for carry in context.trace.carried:
            if carry.frame is not loop.frame:
                continue
            source = _state(context, carry)
            user = _user(loop, carry) if source is not None else None
            if source is None or user is None or _fixed_in_place(context, carry, loop):
                continue
            retained = any(context.value(e.kwargs.get("retain_graph")) is True for e in loop.backwards)
            told = (
                "with retain_graph each step keeps and walks the graphs of all steps before"
                if retained
                else "backward walks into the graph of the step before, which is already freed, and fails in the second step"
            )
            yield context.finding(
                RULE,
                user,
                f"{carry.name} is carried from step to step with its graph: {told}",
                evidence=[
                    Evidence("carried", carry.name),
                    Evidence("detached", False),
                    Evidence("retain_graph", retained),
                ],
                related=[(source, "the state is made here")],
                fix=Fix(
                    title=f"detach {carry.name} before it is used again",
                    instruction=f"{carry.name} = {carry.name}.detach() at the start of each step; for a tuple, detach each part",
                    expected="each step reaches back to its own start only",
                ),
            )


def _state(context: Context, carry: Carry) -> Obj | None:
    """The call whose output a pass always leaves in the variable, when that carries a graph."""
    final = carry.final
    if isinstance(final, Choice) or any(isinstance(o, Known) for o in options_of(final)):
        return None
    parts: list[Value] = list(final.items) if isinstance(final, Seq) else [final]
    for part in parts:
        source = graph_of(context, part)
        if source is not None and any(carry.mark is p for p in provenance(part, 400, ends=_cut)):
            return source
    return None


def _cut(value: Value) -> bool:
    """Whether what lies behind a value is cut off from its graph."""
    return isinstance(value, Obj) and value.name in (".detach", ".data", "data", ".item")


def _user(loop: TrainingLoop, carry: Carry) -> Event | None:
    """The call of a network that is given what was carried, with its graph."""
    for event in loop.events:
        if event.name != "()" or not is_module(event.receiver):
            continue
        for value in (*event.args, *event.kwargs.values()):
            if value is carry.mark or (isinstance(value, Seq) and any(_part(item, carry.mark) for item in value.items)):
                return event
    return None


def _part(item: Value, mark: Value) -> bool:
    return item is mark or (isinstance(item, Obj) and item.kind == "item" and item.receiver is mark)


def _fixed_in_place(context: Context, carry: Carry, loop: TrainingLoop) -> bool:
    """Whether the state is detached in place, through a function that is not seen, or through its ``data``."""
    wanted = {id(carry.mark)} | {id(o) for o in options_of(carry.final)}
    for event in loop.events:
        if event.name in (".detach_", ".copy_", ".zero_", ".fill_", ".data.zero_"):
            if any(id(p) in wanted for p in provenance(event.receiver, 20)):
                return True
        elif event.name == "?" and any(id(a) in wanted for a in event.args):
            return True
        elif event.name == ".detach" and any(_part(o, carry.mark) for o in options_of(event.receiver)):
            return True  # within the network that is given it
    return False
