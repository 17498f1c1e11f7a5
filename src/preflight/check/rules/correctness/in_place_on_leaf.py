"""A parameter is changed in place while gradients are recorded.

## What it does
Reports in-place operations (`p.add_(...)`, `p -= lr * p.grad`) on the parameters of a model outside `torch.no_grad()`.

## Why
PyTorch refuses to change a leaf that requires gradients in place: "a leaf Variable that requires grad is being used in an in-place operation".
The run stops in the first step.

## Fix
Put the update into `with torch.no_grad():`.

## When to ignore
When the parameters are frozen before.

## References
- PyTorch documentation, autograd mechanics: in-place operations
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.names_in_text import names_in
from preflight.check.queries.tensors import grad_off
from preflight.check.rule import Rule
from preflight.source.trace import Context as Frame
from preflight.source.trace import Event, name_of
from preflight.source.values import Func, Obj, Value, plain, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="in-place-on-leaf", code="AUT002", severity="error", confidence="certain", layer="D", tags=("autograd",)
)

BAD = (
    """
import torch, torch.nn as nn
model = nn.Linear(8, 2)
for x, y in loader:
    model.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    for p in model.parameters():
        p.add_(p.grad, alpha=-0.1)
""",
    """
import torch
net = torch.nn.Linear(8, 2)
def update(lr):
    for name, weight in net.named_parameters():
        weight -= lr * weight.grad
for x, y in loader:
    torch.nn.functional.mse_loss(net(x), y).backward()
    update(0.1)
""",
    """
import argparse, torch
from torch import nn
p = argparse.ArgumentParser()
p.add_argument("--std", type=float, default=0.02)
args = p.parse_args()
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(8))
        self.scale.mul_(args.std)
net = Net()
""",
)

GOOD = (
    """
import torch, torch.nn as nn
model = nn.Linear(8, 2)
nn.init.normal_(model.weight)
for x, y in loader:
    nn.functional.cross_entropy(model(x), y).backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.1 * p.grad
            p.grad.zero_()
    for p in model.parameters():
        p.data.add_(p.grad, alpha=-0.1)
        p.grad.mul_(0.5)
        p.requires_grad_(True)
""",
    """
import torch
class Sgd(torch.optim.Optimizer):
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.add_(p.grad, alpha=-group["lr"])
torch.set_grad_enabled(False)
net = torch.nn.Linear(8, 2)
for p in net.parameters():
    p.mul_(0.1)
""",
    """
import copy, torch
net = torch.nn.Linear(8, 2)
average = copy.deepcopy(net)
for p in average.parameters():
    p.requires_grad_(False)
for a, p in zip(average.parameters(), net.parameters()):
    a.mul_(0.999).add_(p.detach(), alpha=0.001)
""",
    """
import torch
from transformers import TrainerCallback
class Average(TrainerCallback):
    def _update(self, net):
        for mine, theirs in zip(self.copy.parameters(), net.parameters()):
            mine.copy_(0.9 * mine + 0.1 * theirs)
    @torch.no_grad()
    def on_step_end(self, args, state, control, model=None, **kwargs):
        self._update(model)
""",
    """
import torch
from quantized import Packed, load
net = load("net.pt")
def share(net):
    for name, weight in net.named_parameters():
        if type(weight) is Packed:
            weight.copy_(weight.packed())
        if not weight.requires_grad:
            weight.mul_(0.5)
share(net)
""",
    """
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
base = AutoModelForCausalLM.from_pretrained("gpt2")
net = get_peft_model(base, LoraConfig(r=8))
for name, weight in net.named_parameters():
    if "lora" not in name:
        weight.mul_(0.5)
""",
)

_NOT_CHANGES = frozenset({"requires_grad_", "retain_grad_", "detach_", "share_memory_", "rename_"})


def check(context: Context) -> Iterator[Finding]:
    """Look for in-place operations on parameters where gradients are recorded."""
    if context.trace.calls("torch.set_grad_enabled") or _freezes(context):
        return
    for event in context.trace.events:
        name = event.name[1:]
        if not event.name.startswith(".") or not name.endswith("_") or name.startswith("_") or name in _NOT_CHANGES:
            continue
        if _leaf(event.receiver) and not _off(event.context) and not _chosen(event):
            yield _report(context, event, f"{name}()")
    for event in context.trace.calls(*_AUGMENTED):
        if _leaf(event.receiver) and not _off(event.context):
            yield _report(context, event, _AUGMENTED[event.name])


def _freezes(context: Context) -> bool:
    """Whether the script freezes any parameters: a frozen one (an averaged copy, a teacher) may be changed in place."""
    if any(event.name.startswith("peft.") for event in context.trace.events):
        return True  # it freezes all but its adapters
    return any(plain(s.value) is False for s in context.trace.stores if s.name == "requires_grad") or any(
        plain(e.argument(0, "requires_grad"), True) is False for e in context.trace.calls(".requires_grad_")
    )


_AUGMENTED = {".__iadd__": "+=", ".__isub__": "-=", ".__imul__": "*=", ".__itruediv__": "/="}


def _chosen(event: Event) -> bool:
    """Whether a parameter is changed only where it is of some type or is frozen, so that it need not record gradients."""
    call = event.node.func if isinstance(event.node, ast.Call) else None
    held = call.value if isinstance(call, ast.Attribute) else None
    if not isinstance(held, ast.Name):
        return False
    for frame in event.context.frames():
        if not isinstance(frame.node, (ast.If, ast.IfExp)):
            continue
        test = frame.node.test
        for part in ast.walk(test):
            called = part.func if isinstance(part, ast.Call) else None
            if isinstance(called, ast.Name) and called.id in ("type", "isinstance"):
                return held.id in names_in(test)
            asks = isinstance(part, ast.Attribute) and part.attr == "requires_grad"
            if asks and (part is not test or frame.polarity is not True):
                return True
    return False


def _off(frame: Frame | None) -> bool:
    """Whether gradients are off, or may be: an optimizer's step runs without them where it says so."""
    if frame is None or grad_off(frame) or frame.shadow:
        return True
    entered = [settle(w) for w in frame.withs()]
    if any((name_of(w) or "").startswith("torch.") is False for w in entered):
        return True  # a manager of the project or of a library that is not known
    return any(
        isinstance(f.value, Func)
        and f.value.owner is not None
        and any("Optimizer" in n for n in f.value.owner.external_bases())
        for f in frame.frames()
        if f.kind == "call"
    )


def _leaf(value: Value | None) -> bool:
    """Whether a value is a parameter itself: made as one, or an item of ``parameters()``."""
    found = settle(value) if value is not None else None
    if not isinstance(found, Obj):
        return False
    if found.kind == "call" and found.name in ("torch.nn.Parameter", "torch.nn.parameter.Parameter"):
        return plain(found.argument(1, "requires_grad"), True) is True
    if found.kind != "item" or found.receiver is None:
        return False
    holder = settle(found.receiver)
    if (
        isinstance(holder, Obj)
        and holder.kind == "item"
        and holder.receiver is not None
        and found.args
        and plain(found.args[0]) == 1
    ):
        inner = settle(holder.receiver)
        return isinstance(inner, Obj) and inner.name == ".named_parameters"
    return isinstance(holder, Obj) and holder.name == ".parameters" and not found.args


def _report(context: Context, event: Event, what: str) -> Finding:
    return context.finding(
        RULE,
        event,
        f"{what} changes a parameter in place while gradients are recorded: the run stops here",
        evidence=[Evidence("operation", what), Evidence("gradients recorded", True)],
        fix=Fix(
            title="update without recording gradients",
            instruction="put the update into `with torch.no_grad():`",
            expected="the update runs",
        ),
    )
