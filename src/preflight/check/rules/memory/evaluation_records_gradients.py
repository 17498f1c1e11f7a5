"""An evaluation loop records gradients.

## What it does
Looks for loops that call a network which is trained elsewhere, compute no gradients, and are not under `torch.no_grad()` or `torch.inference_mode()`.

## Why
With gradients on, each forward pass keeps the activations of all layers until its output is dropped.
An evaluation then needs the activation memory of a training step instead of that of one or two layers, and often runs out of memory with an evaluation batch that is larger than the training batch.
Where outputs or losses are collected with their graph, the activations of every batch stay: the memory grows until the loop ends.
`model.eval()` does not change this: it switches dropout and batch norm only.

## Fix
Put the loop under `with torch.no_grad():`, or decorate the function with `@torch.no_grad()`.

## When to ignore
When the gradients are used by code that cannot be seen from the script.

## References
- PyTorch documentation, "Locally disabling gradient computation"
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Edit, Evidence, Fix, edits
from preflight.check.queries.evaluations import Evaluation, evaluations_with_gradients
from preflight.check.queries.kept_graphs import graph_of
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import Func
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="evaluation-records-gradients",
    code="MEM011",
    severity="warning",
    confidence="likely",
    needs=("training_loop", "complete"),
    layer="S",
    tags=("memory", "evaluation"),
)

_TRAIN = """
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(a, batch_size=8, shuffle=True):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""
BAD = (
    _TRAIN
    + """
model.eval()
correct = 0
for x, y in DataLoader(b, batch_size=8):
    correct += (model(x).argmax(1) == y).sum().item()
""",
    _TRAIN
    + """
def test(net, loader):
    net.eval()
    losses = []
    for x, y in loader:
        losses.append(nn.functional.cross_entropy(net(x), y))
    return sum(losses) / len(losses)
test(model, DataLoader(b, batch_size=8))
""",
    """
import argparse, torch
import torch.nn as nn
class Trainer:
    def __init__(self, args):
        self.net = nn.Linear(10, 2)
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=args.lr)
    def run(self, batches, train):
        for x, y in batches:
            loss = nn.functional.mse_loss(self.net(x), y)
            if train:
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=1e-3)
trainer = Trainer(parser.parse_args())
for epoch in range(10):
    trainer.run(loader, True)
    trainer.run(held_out, False)
""",
)
GOOD = (
    _TRAIN
    + """
@torch.no_grad()
def score(net, x):
    return net(x).argmax(1)
def test(net, loader):
    for x, y in loader:
        print((score(net, x) == y).float().mean())
test(model, b)
with torch.inference_mode():
    for x, y in b:
        model(x)
""",
    _TRAIN
    + """
for x, y in b:
    x.requires_grad_(True)
    loss = nn.functional.cross_entropy(model(x), y)
    grad, = torch.autograd.grad(loss, x)
    print(model(x + 0.1 * grad.sign()))
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for task in tasks:
    optimizer.zero_grad()
    total = 0
    for x, y in task:
        total = total + nn.functional.cross_entropy(model(x), y)
    total.backward()
    optimizer.step()
for phase in ("train", "val"):
    for x, y in loaders[phase]:
        with torch.set_grad_enabled(phase == "train"):
            loss = nn.functional.cross_entropy(model(x), y)
            if phase == "train":
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find evaluation loops with gradients on."""
    for found in evaluations_with_gradients(context):
        kept = _collected(context, found)
        call = found.calls[0]
        told = (
            "and the graph of each batch is kept: the memory grows with every batch"
            if kept is not None
            else "so each batch keeps the activations of all layers although nothing uses them"
        )
        edit, place = _decorate(context, found)
        yield context.finding(
            RULE,
            call,
            f"the network is evaluated with gradients on, {told}",
            evidence=[
                Evidence("calls of the network in the loop", len({id(c.node) for c in found.calls})),
                Evidence("backward in the loop", 0),
                Evidence("no_grad or inference_mode around it", 0),
            ],
            related=[(kept, "what keeps the graph")] if kept is not None else (),
            fix=Fix(
                title=f"turn gradients off {place}",
                safe=False,
                edits=edits(edit) if edit is not None else (),
                instruction="put the loop under `with torch.no_grad():` or decorate the function with @torch.no_grad()",
                expected="activations are freed layer by layer",
            ),
        )


def _collected(context: Context, found: Evaluation) -> Event | None:
    """A call that collects values with their graph in something that outlives a pass."""
    for event in found.inside:
        between = (f for f in event.context.frames() if f.depth > found.frame.depth)
        if any(f.kind == "call" for f in between):
            continue  # a list of the network's own forward goes when it returns
        if event.name in (".append", ".extend") and event.args and graph_of(context, event.args[0]) is not None:
            return event
    return None


def _decorate(context: Context, found: Evaluation) -> tuple[Edit | None, str]:
    """An edit that decorates the function that holds the loop, where that function does nothing but evaluate."""
    frame = next((f for f in found.frame.frames() if f.kind in ("call", "root") and isinstance(f.value, Func)), None)
    func = frame.value if frame is not None else None
    if not isinstance(func, Func) or not isinstance(func.node, ast.FunctionDef) or func.generator:
        return None, "around the loop"
    if any(
        loop.frame.node is not None and any(n is loop.frame.node for n in ast.walk(func.node))
        for loop in context.reading.loops
    ):
        return None, "around the loop"
    if not any(
        isinstance(n, ast.Import) and any(a.name == "torch" and a.asname is None for a in n.names)
        for n in func.module.script.tree.body
    ):
        return None, f"in {func.qualname}"
    script = func.module.script
    if script.cells:
        return None, f"in {func.qualname}"
    line = func.node.lineno  # under the decorators: a classmethod or a property is no function to wrap
    text = script.lines[line - 1]
    indent = text[: len(text) - len(text.lstrip())]
    return Edit(script.path, line, 1, line, 1, f"{indent}@torch.no_grad()\n"), f"in {func.qualname}"
