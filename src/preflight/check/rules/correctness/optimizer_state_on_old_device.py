"""The optimizer's state is loaded before the model moves.

## What it does
Looks for `optimizer.load_state_dict(...)` that is followed by moving the model to a GPU.

## Why
Loading puts each state on the device where its parameter is at that moment.
Moving the model moves the parameters and leaves momentum and second moments behind: `step()` raises `RuntimeError: Expected all tensors to be on the same device`.

## Fix
Move the model first, then build the optimizer, then load its state.

## When to ignore
When the state is moved by hand.

## References
- PyTorch documentation, `torch.optim.Optimizer.load_state_dict`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.parameters import holding_of
from preflight.check.queries.precision import device_of
from preflight.check.rule import Rule
from preflight.source.evaluate.library.torch import wrapped
from preflight.source.trace import Event
from preflight.source.values import Obj
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="optimizer-state-on-old-device",
    code="OPT011",
    severity="warning",
    confidence="likely",
    needs=("optimizer",),
    layer="D",
    tags=("optimizer", "checkpoint"),
)

BAD = (
    """
import torch
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.Adam(model.parameters())
optimizer.load_state_dict(torch.load("optimizer.pt"))
model.cuda()
""",
    """
from torch.optim import AdamW as Opt
import torch as t
class Trainer:
    def __init__(self, path):
        self.net = t.nn.Linear(2, 2)
        self.opt = Opt(self.net.parameters())
        self.resume(path)
        self.net = self.net.to("cuda")
    def resume(self, path):
        state = t.load(path, map_location="cpu")
        self.net.load_state_dict(state["model"])
        self.opt.load_state_dict(state["optimizer"])
Trainer("last.pt")
""",
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
args = parser.parse_args()
model = torch.nn.Sequential(torch.nn.Linear(2, 2))
sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
sgd.load_state_dict(torch.load("last.pt")["optimizer"])
model.to(torch.device(args.device))
""",
)

GOOD = (
    """
import torch
model = torch.nn.Linear(2, 2)
model.cuda()
optimizer = torch.optim.Adam(model.parameters())
optimizer.load_state_dict(torch.load("optimizer.pt"))
model.cuda()
""",
    """
import torch
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.Adam(model.parameters())
optimizer.load_state_dict(torch.load("optimizer.pt"))
model.cuda()
for state in optimizer.state.values():
    for name, value in state.items():
        state[name] = value.cuda()
""",
    """
import torch
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.Adam(model.parameters())
optimizer.load_state_dict(torch.load("optimizer.pt"))
model.to(torch.bfloat16)
""",
    """
import os, torch
def train(device):
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters())
    if os.path.exists("last.pt"):
        state = torch.load("last.pt", map_location="cpu")
        model = model.to(device)
        optimizer.load_state_dict(state["optimizer"])
    for x in data:
        optimizer.zero_grad()
        model(x.to(device)).mean().backward()
        optimizer.step()
    model.load_state_dict(torch.load("best.pt", map_location="cpu"))
    model = model.to(device)
    print(model(held_out.to(device)))
train("cuda")
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find moves of a model behind the loading of its optimizer's state."""
    for optimizer in context.reading.made("optimizer"):
        loads = [e for e in context.trace.on(optimizer, "load_state_dict") if not e.context.loops()]
        owners = {id(p.owner) for p in holding_of(context.reading, optimizer).parts}
        if not loads or _moved_by_hand(context, optimizer):
            continue
        first = loads[0]
        moves = [e for e in context.trace.calls(".to", ".cuda") if _target(e) == "cuda" and _moves(e, owners)]
        after = [e for e in moves if e.number > first.number and not e.context.loops() and not e.context.shadow]
        if not after or any(e.number < first.number for e in moves) or _left(first, after[0]):
            continue
        steps = context.trace.on(optimizer, "step")
        if steps and all(e.number < after[0].number for e in steps):
            continue  # trained by then: moved to be tested
        yield context.finding(
            RULE,
            after[0],
            "the model moves to the GPU after the optimizer's state was loaded for the CPU: the states stay behind and step() fails",
            evidence=[Evidence("moves of the model before the state is loaded", 0)],
            fix=Fix(
                title="move the model before the optimizer is built and its state loaded",
                safe=False,
                instruction="move the model to its device first, then build the optimizer, then load its state",
                expected="parameters and states are on one device",
            ),
            related=[(first, "the state is loaded here")],
        )


def _left(load: Event, move: Event) -> bool:
    """Whether the two are in functions that nothing was seen to call together."""
    return list(load.context.frames())[-1] is not list(move.context.frames())[-1]


def _moves(event: Event, owners: set[int]) -> bool:
    return id(wrapped(event.receiver)) in owners


def _target(event: Event) -> str | None:
    if event.name == ".cuda":
        return "cuda"
    given = event.argument(0, "device")
    return device_of(given)


def _moved_by_hand(context: Context, optimizer: Obj) -> bool:
    return any(isinstance(s, Obj) and s.kind == "attr" and s.name == "state" for s in optimizer.attrs.values())
