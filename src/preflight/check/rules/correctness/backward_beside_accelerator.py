"""`loss.backward()` in a script that uses Accelerate.

## What it does
Looks for a loss whose `backward()` is called directly although its optimizer was handed to `Accelerator.prepare`.

## Why
`accelerator.backward(loss)` divides by the accumulation steps, scales the loss under float16, and lets DeepSpeed and Megatron run their own backward.
Called directly, float16 gradients underflow while the prepared optimizer still divides by the scale, and accumulation sums instead of averaging.

## Fix
Replace `loss.backward()` by `accelerator.backward(loss)`.

It is a warning where the script's `Accelerator` neither scales nor accumulates: then a direct call does the same, unless the launch sets fp16, accumulation or DeepSpeed.

## When to ignore
Never for a prepared optimizer.

## References
- Accelerate documentation, `Accelerator.backward`
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.updates import Update, updates
from preflight.check.rule import Rule
from preflight.source.trace import Event, provenance
from preflight.source.training import same_guards
from preflight.source.values import Obj, Unknown, options_of, plain
from preflight.vocabulary.finding import Edit, Finding

RULE = Rule(
    name="backward-beside-accelerator",
    code="ACL001",
    severity="error",
    confidence="likely",
    needs=("training_loop",),
    layer="D",
    tags=("accelerate",),
)

BAD = (
    """
import torch
from torch import nn
from accelerate import Accelerator
accelerator = Accelerator(mixed_precision="fp16")
model = nn.Linear(10, 2)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for x, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
""",
    """
import accelerate as acc
import torch as t
class Trainer:
    def __init__(self):
        self.accelerator = acc.Accelerator()
        net = t.nn.Linear(4, 4)
        opt = t.optim.SGD(net.parameters(), lr=0.1)
        self.net, self.opt = self.accelerator.prepare(net, opt)
    def update(self, x):
        self.opt.zero_grad()
        self.net(x).mean().backward()
        self.opt.step()
trainer = Trainer()
for x in data:
    trainer.update(x)
""",
    """
import argparse, torch
from accelerate import Accelerator
parser = argparse.ArgumentParser()
parser.add_argument("--accumulate", type=int, default=4)
args = parser.parse_args()
accelerator = Accelerator(gradient_accumulation_steps=args.accumulate)
net = torch.nn.Linear(4, 1)
opt = accelerator.prepare(torch.optim.Adam(net.parameters()))
net = accelerator.prepare(net)
for x in data:
    with accelerator.accumulate(net):
        cost = net(x).mean()
        cost.backward()
        opt.step()
        opt.zero_grad()
""",
)

GOOD = (
    """
import torch
from torch import nn
from accelerate import Accelerator
accelerator = Accelerator(mixed_precision="fp16")
model = nn.Linear(10, 2)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for x, y in loader:
    optimizer.zero_grad()
    accelerator.backward(nn.functional.cross_entropy(model(x), y))
    optimizer.step()
""",
    """
import torch
from torch import nn
from accelerate import Accelerator
accelerator = Accelerator()
model, probe = nn.Linear(10, 2), nn.Linear(2, 2)
optimizer = torch.optim.AdamW(model.parameters())
own = torch.optim.SGD(probe.parameters(), lr=0.1)
model, optimizer = accelerator.prepare(model, optimizer)
for x, y in loader:
    optimizer.zero_grad()
    out = model(x)
    accelerator.backward(nn.functional.cross_entropy(out, y))
    optimizer.step()
    own.zero_grad()
    nn.functional.cross_entropy(probe(out.detach()), y).backward()
    own.step()
""",
    """
import argparse, torch
from accelerate import Accelerator
parser = argparse.ArgumentParser()
parser.add_argument("--use_accelerate", type=bool, default=True)
class Trainer:
    def __init__(self, args):
        self.args = args
        self.accelerator = self._accelerator()
        self.net = torch.nn.Linear(4, 1)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
        if self.accelerator is not None:
            self.net, self.opt = self.accelerator.prepare(self.net, self.opt)
    def _accelerator(self):
        if not self.args.use_accelerate:
            return None
        return Accelerator()
    def fit(self, data):
        for x in data:
            self.opt.zero_grad()
            loss = self.net(x).mean()
            if self.accelerator is not None:
                self.accelerator.backward(loss)
            else:
                loss.backward()
            self.opt.step()
Trainer(parser.parse_args()).fit(data)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find direct backwards for prepared optimizers."""
    accelerators = context.reading.made("accelerator")
    if not accelerators:
        return
    seen: set[int] = set()
    for update in updates(context):
        prepared = _prepared(context, update.optimizer)
        if prepared is None:
            continue
        for backward in update.backwards():
            if (
                id(backward) in seen
                or backward.name != ".backward"
                or context.roles.of(backward.receiver) in ("accelerator", "engine", "scaler")
            ):
                continue
            if not _direct(backward, update) or not same_guards(prepared, backward):
                continue
            if any(
                not same_guards(other, backward) for other in update.loop.backwards if _of_accelerator(context, other)
            ):
                continue  # the other way of the same question: with Accelerate or without it
            seen.add(id(backward))
            same = _does_the_same(prepared)
            left = "what the launch may set of scaling, accumulation or DeepSpeed is" if same else _LEFT
            yield context.finding(
                RULE,
                backward,
                f"backward() is called on the loss itself although Accelerate prepared its optimizer: {left} left out",
                severity="warning" if same else None,
                evidence=[
                    Evidence(
                        "calls of accelerator.backward in the loop",
                        sum(_of_accelerator(context, b) for b in update.loop.backwards),
                    )
                ],
                fix=Fix(
                    title="call accelerator.backward(loss)",
                    safe=False,
                    edits=edits(_edit(context, backward, prepared)),
                    instruction="replace loss.backward() by accelerator.backward(loss)",
                    expected="loss scaling, accumulation and the plug-ins take part",
                ),
                related=[(prepared, "the optimizer is prepared here")],
            )


_LEFT = "scaling and accumulation are"
_WITHOUT: dict[str, tuple[object, ...]] = {
    "mixed_precision": ("no", "bf16", None),
    "gradient_accumulation_steps": (1,),
    **dict.fromkeys(
        ("gradient_accumulation_plugin", "deepspeed_plugin", "deepspeed_plugins", "megatron_lm_plugin"), (None,)
    ),
}
"""What an ``Accelerator`` is given where its ``backward`` calls that of the loss and nothing else."""


def _does_the_same(prepared: Event) -> bool:
    """Whether the accelerator that prepared neither scales nor accumulates by what the script gives it."""
    return all(
        isinstance(one, Obj)
        and not one.args
        and not one.open_args
        and all(plain(one.kwargs[name], "not known") in may for name, may in _WITHOUT.items() if name in one.kwargs)
        for one in options_of(prepared.receiver)
    )


def _of_accelerator(context: Context, backward: Event) -> bool:
    return context.roles.of(backward.receiver) == "accelerator"


def _direct(backward: Event, update: Update) -> bool:
    """A backward on a tensor; not one of a library's engine, whose receiver is not known."""
    options = list(options_of(backward.receiver))
    if any(isinstance(o, Unknown) for o in options) or (backward.args and "loss" not in backward.kwargs):
        return False
    return update.reaches(backward) is True or (update.alone and update.reaches(backward) is not False)


def _prepared(context: Context, optimizer: Obj) -> Event | None:
    for event in context.trace.calls(".prepare", ".prepare_optimizer"):
        if context.roles.of(event.receiver) == "accelerator":
            for value in (*event.args, *event.kwargs.values()):
                if any(part is optimizer for part in provenance(value, 8)):
                    return event
    return None


def _edit(context: Context, backward: Event, prepared: Event) -> Edit | None:
    node, other = backward.node, prepared.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not isinstance(other, ast.Call):
        return None
    if (
        not isinstance(other.func, ast.Attribute)
        or backward.script is not prepared.script
        or node.args
        or node.keywords
    ):
        return None
    name = backward.script.segment(other.func.value)
    return context.replace(backward, f"{name}.backward({backward.script.segment(node.func.value)})")
