"""The graph is retained although it is used once.

## What it does
Looks for `retain_graph=True` on the only, or the last, `backward()` of a training step.

## Why
The saved activations then stay until the loss is dropped, which is after the next forward pass has made its own: the peak holds two sets of activations instead of one.
Often the argument was added to silence "Trying to backward through the graph a second time"; then a value of an earlier step is used with its graph, and each step walks through all steps before.

## Fix
Remove `retain_graph=True`; where that raises an error, detach the value that is carried over from the step before.

## When to ignore
When code that cannot be seen from the script computes gradients of the same graph again.

## References
- PyTorch documentation, `torch.Tensor.backward`
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Edit, Evidence, Fix, edits
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.training import TrainingLoop, same_guards
from preflight.source.values import Known, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="graph-retained",
    code="MEM014",
    severity="warning",
    confidence="likely",
    needs=("training_loop",),
    layer="S",
    tags=("memory",),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
""",
    """
import argparse, torch
import torch.nn as nn
class Trainer:
    def __init__(self, args):
        self.net = nn.Linear(10, 2)
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=args.lr)
        self.keep = True
    def step(self, x, y):
        self.opt.zero_grad()
        nn.functional.mse_loss(self.net(x), y).backward(None, self.keep)
        self.opt.step()
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=1e-3)
trainer = Trainer(parser.parse_args())
for x, y in loader:
    trainer.step(x, y)
""",
    """
import torch
from torch.nn import Linear
from torch.nn.functional import binary_cross_entropy_with_logits as bce
g, d = Linear(2, 2), Linear(2, 1)
opt = torch.optim.Adam([*g.parameters(), *d.parameters()])
for x in loader:
    opt.zero_grad()
    out = d(g(x))
    first = bce(out, x)
    first.backward(retain_graph=True)
    second = out.mean()
    second.backward(retain_graph=True)
    opt.step()
""",
)
GOOD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    out = model(x)
    optimizer.zero_grad()
    nn.functional.cross_entropy(out, y).backward(retain_graph=True)
    out.norm().backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward(retain_graph=False)
    optimizer.step()
    losses = [p.sum() for p in parts(model, x)]
    for part in losses:
        part.backward(retain_graph=True)
    optimizer.step()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find a retained graph that nothing uses again."""
    for loop in context.reading.loops:
        for event in loop.backwards:
            if not _retains(event) or event.context.shadow or _used_again(context, loop, event):
                continue
            edit = _remove(context, event)
            yield context.finding(
                RULE,
                event,
                "backward keeps the graph (retain_graph=True) although nothing in the step uses it again: "
                "the activations stay in memory while the next forward pass makes its own",
                evidence=[Evidence("retain_graph", True), Evidence("gradients computed later in the step", 0)],
                fix=Fix(
                    title="remove retain_graph=True",
                    edits=edits(edit) if edit is not None else (),
                    instruction="remove the argument; where an error follows, detach what is carried over from the step before",
                    expected="the activations are freed during backward",
                ),
            )


def _retains(event: Event) -> bool:
    if "create_graph" in event.kwargs:
        return False
    value = event.argument(1, "retain_graph") if event.name == ".backward" else event.kwargs.get("retain_graph")
    base = settle(value) if value is not None else None
    return isinstance(base, Known) and base.value is True


_AGAIN = (".backward", ".manual_backward", "torch.autograd.backward", "torch.autograd.grad")


def _used_again(context: Context, loop: TrainingLoop, event: Event) -> bool:
    """Whether gradients are computed later in the same pass, or the backward itself repeats in an inner loop."""
    inner = event.context.loops()
    if (inner and inner[0] is not loop.frame) or any(f.kind == "loop" and f.unrolled for f in event.context.frames()):
        return True
    for other in context.trace.calls(*_AGAIN):
        if other.number > event.number and other.context.within(loop.frame) and same_guards(event, other):
            return True
    # A helper outside the project may compute gradients of the loss or its parts.
    held = {id(event.receiver)}
    for other in loop.events:
        if (
            other.number > event.number
            and not other.inlined
            and not other.name.startswith((".", "torch.", "builtins."))
        ) and any(id(a) in held for a in other.args):
            return True
    return False


def _remove(context: Context, event: Event) -> Edit | None:
    """Remove the argument, where it is the only one."""
    node = event.node
    if (
        isinstance(node, ast.Call)
        and not node.args
        and len(node.keywords) == 1
        and isinstance(node.keywords[0].value, ast.Constant)
    ):
        return context.replace((event.script, node), f"{event.script.segment(node.func)}()")
    return None
