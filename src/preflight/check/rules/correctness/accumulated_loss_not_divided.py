"""The losses of accumulated batches are summed, not averaged.

## What it does
Looks for a step that comes once in k backwards, where each loss is a mean over its batch and is not divided by k.

## Why
PyTorch adds up the k gradients, so the step uses k times the gradient of the large batch that accumulation stands for.
With SGD the learning rate is k times what it says; with Adam, clipping and eps work on gradients k times too large.

## Fix
Divide the loss by k before `backward()`.

## When to ignore
When the learning rate was tuned for the sum.

## References
- PyTorch documentation, "Automatic Mixed Precision examples": gradient accumulation
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.updates import Accumulation, accumulation, managed, updates
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.training import loss_of
from preflight.source.values import Choice, Known, Obj, Phi, Seq, Value, options_of, settle
from preflight.vocabulary.finding import Edit, Finding

RULE = Rule(
    name="accumulated-loss-not-divided",
    code="ACC001",
    severity="warning",
    confidence="likely",
    needs=("training_loop", "optimizer"),
    layer="D",
    tags=("accumulation",),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, (x, y) in enumerate(data):
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
    """
from torch.optim import Adam as A
import torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
    def forward(self, x, y):
        out = self.a(x)
        return out, nn.functional.mse_loss(out, y)
class Trainer:
    def __init__(self, every=8):
        self.net, self.every = Net(), every
        self.opt = A(self.net.parameters())
    def train(self):
        for step in range(1000):
            self.opt.zero_grad()
            for micro in range(self.every):
                out, loss = self.net(*next(batches))
                loss.backward()
            self.opt.step()
Trainer().train()
""",
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--accumulate", type=int, default=4)
args = parser.parse_args()
net, criterion = torch.nn.Linear(4, 1), torch.nn.BCEWithLogitsLoss()
opt = torch.optim.Adam(net.parameters())
scaler = torch.amp.GradScaler("cuda")
for i, (x, y) in enumerate(data):
    scaler.scale(criterion(net(x), y)).backward()
    if not (i + 1) % args.accumulate:
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
""",
)

GOOD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
accumulate = 4
for i, (x, y) in enumerate(data):
    loss = nn.functional.cross_entropy(model(x), y)
    loss *= 1 / accumulate
    loss.backward()
    if (i + 1) % accumulate == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, (x, y) in enumerate(data):
    nn.functional.cross_entropy(model(x), y, reduction="sum").backward()
    if (i + 1) % 4 == 0:
        for p in model.parameters():
            p.grad /= count
        optimizer.step()
        optimizer.zero_grad()
""",
    """
import torch
from torch import nn
G, D = nn.Linear(8, 8), nn.Linear(8, 1)
opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
for i, x in enumerate(data):
    opt_d.zero_grad()
    (D(G(x).detach()).mean() - D(x).mean()).backward()
    opt_d.step()
    if i % 5 == 0:
        opt_g.zero_grad()
        (-D(G(x)).mean()).backward()
        opt_g.step()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, (x, y) in enumerate(data):
    total = nn.functional.cross_entropy(model(x), y, reduction="none")
    (total.sum() / tokens).backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
)

_MEANS = frozenset(
    f"torch.nn.functional.{n}"
    for n in (
        "cross_entropy",
        "nll_loss",
        "mse_loss",
        "l1_loss",
        "smooth_l1_loss",
        "huber_loss",
        "binary_cross_entropy",
        "binary_cross_entropy_with_logits",
        "kl_div",
        "cosine_embedding_loss",
        "triplet_margin_loss",
    )
)
_THROUGH = frozenset({".float", ".to", ".cuda", ".squeeze", ".view", ".reshape", ".double", "+", "-", "neg"})


def check(context: Context) -> Iterator[Finding]:
    """Find accumulated backwards of undivided means."""
    if managed(context) or any(s.name == "grad" for s in context.trace.stores) or _grads_scaled(context):
        return
    for update in updates(context):
        held = accumulation(update)
        if held is None or held.divisible is False or (held.count == 1 and not _soft(held)):
            continue
        for backward in update.backwards(sure=True):
            inside = held.kind == "test" or backward.context.within(held.frame)
            mean = _mean(loss_of(backward)) if inside and len(backward.args) == 0 else None
            if mean is None:
                continue
            k = held.count if held.count and held.count > 1 else None
            text = f"the losses of {k or 'k'} batches are summed, not averaged: the step uses {k or 'k'} times the gradient of their mean"
            edit = _edit(context, held, backward)
            yield context.finding(
                RULE,
                backward,
                text,
                confidence="possible" if held.count == 1 else None,
                evidence=[Evidence("backwards per step", k), Evidence("divisions between the mean and backward", 0)],
                fix=Fix(
                    title="divide the loss by the number of accumulated batches",
                    safe=False,
                    edits=edits(edit) if edit is not None else (),
                    instruction=f"divide the loss by {k or 'the number of accumulated batches'} before backward()",
                    expected="the step does not depend on how the batch is split",
                ),
                related=[(mean, "a mean over the batch"), (update.steps[0], "the optimizer steps here")],
            )
            break


def _soft(held: Accumulation) -> bool:
    base = settle(held.steps) if held.steps is not None else None
    return isinstance(base, Known) and base.soft


def _edit(context: Context, held: Accumulation, backward: Event) -> Edit | None:
    node, steps = backward.node, held.frame.node
    divisor = None
    for part in ast.walk(
        steps.test if isinstance(steps, ast.If) else steps.iter if isinstance(steps, ast.For) else ast.Module([], [])
    ):
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod):
            divisor = part.right
        elif isinstance(part, ast.Call) and getattr(part.func, "id", "") == "range" and len(part.args) == 1:
            divisor = part.args[0]
    if (
        divisor is None
        or not isinstance(node, ast.Call)
        or not isinstance(node.func, ast.Attribute)
        or node.func.attr != "backward"
    ):
        return None
    if held.frame.script is not backward.script:
        return None
    by = backward.script.segment(divisor)
    inner = node.func.value
    if isinstance(inner, ast.Name):
        return context.replace((backward.script, inner), f"({inner.id} / {by})")
    if (
        isinstance(inner, ast.Call)
        and len(inner.args) == 1
        and isinstance(inner.func, ast.Attribute)
        and inner.func.attr == "scale"
    ):
        return context.replace((backward.script, inner.args[0]), f"{backward.script.segment(inner.args[0])} / {by}")
    return None


def _grads_scaled(context: Context) -> bool:
    for event in context.trace.calls(".div_", ".mul_"):
        if any(isinstance(o, Obj) and o.kind == "attr" and o.name == "grad" for o in options_of(event.receiver)):
            return True
    return False


def _mean(loss: Value | None) -> Obj | None:
    """The mean over a batch that a loss is, when nothing divides it; None where it may be something else."""
    stack: list[Value] = [loss] if loss is not None else []
    found: Obj | None = None
    seen: set[int] = set()
    while stack:
        value = stack.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, (Choice, Phi)):
            stack.extend(options_of(value, limit=6))
        elif isinstance(value, Obj):
            if value.kind == "op" and value.name == "*" and any(_weight(a) for a in value.args):
                stack.extend(a for a in value.args if not _weight(a))
            elif value.name in _THROUGH:
                stack.extend(
                    value.args if value.kind == "op" else [value.receiver] if value.receiver is not None else []
                )
            elif _is_mean(value):
                found = found or value
            else:
                return None
        elif not isinstance(value, Known):
            return None
    return found


def _weight(value: Value) -> bool:
    """A plain weight of a part of the loss, of 1 or more: not the inverse of a count."""
    base = settle(value)
    return isinstance(base, Known) and isinstance(base.value, (int, float)) and base.value >= 1


def _is_mean(value: Obj) -> bool:
    reduction = value.kwargs.get("reduction")
    if value.name in _MEANS:
        return reduction is None or _says_mean(reduction)
    if value.name in (".mean", "torch.mean"):
        return not (value.args[1:] if value.name == "torch.mean" else value.args) and "dim" not in value.kwargs
    if value.name == "()" and value.receiver is not None:
        holder = settle(value.receiver)
        if (
            isinstance(holder, Obj)
            and holder.cls is None
            and holder.name.startswith("torch.nn.")
            and holder.name.endswith("Loss")
        ):
            given = holder.kwargs.get("reduction")
            return not {"size_average", "reduce"} & holder.kwargs.keys() and (given is None or _says_mean(given))
    if value.kind == "attr" and value.name == "loss" and value.receiver is not None:
        out = settle(value.receiver)
        if isinstance(out, Obj) and out.name == "()" and out.receiver is not None:
            model = settle(out.receiver)
            return isinstance(model, Obj) and model.name.startswith("transformers.")
    return False


def _says_mean(value: Value) -> bool:
    base = settle(value)
    return isinstance(base, Known) and base.value == "mean" and not isinstance(value, Seq)
