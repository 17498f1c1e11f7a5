"""An epsilon is too small for float16.

## What it does
Reports Adam with an eps below 3e-8 on weights that were loaded as float16, and small constants that are added to float16 tensors, or that float16 tensors are clamped to, where float16 rounds them to zero.

## Why
The smallest number of float16 is 2^-24 = 6.0e-8; what is below half of it is zero.
An eps of 1e-8 is then no eps: squares of gradients below 2.4e-4 are zero in float16 too, and Adam divides by zero in the first step.

## Fix
Keep weights and states in float32 and use autocast; for single tensors, add `torch.finfo(x.dtype).tiny` or compute in float32.

## When to ignore
When the fused optimizer is used, which computes in float32.

## References
- IEEE 754-2008, binary16: 10 bits of fraction, exponents from -14, subnormal numbers down to 2^-24
- PyTorch documentation of Adam: eps is 1e-8 by default
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.half_values import is_half
from preflight.check.queries.tensors import graph, operand, option
from preflight.check.queries.updates import managed, updates
from preflight.check.queries.weight_types import last_cast, weights_of
from preflight.check.rule import Rule
from preflight.source.values import Obj, Value, plain
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="eps-below-resolution",
    code="NUM015",
    severity="warning",
    confidence="likely",
    layer="C",
    tags=("numerics", "precision"),
)

BAD = (
    """
import torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.float16).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
model.train()
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    """
import argparse, torch
from torch import nn
p = argparse.ArgumentParser()
p.add_argument("--eps", type=float, default=1e-8)
args = p.parse_args()
net = nn.Linear(8, 8).cuda()
def unit(h):
    return h / (h.abs() + args.eps)
for x in loader:
    h = net(x).half()
    unit(h).sum().backward()
""",
    """
import torch.nn as nn
from torch import autocast, clamp
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(8, 8), nn.Linear(8, 8)
    def forward(self, x):
        scores = self.q(x) @ self.k(x).transpose(1, 2)
        return x / clamp(scores, min=1e-9)
net = Net().cuda()
for x in loader:
    with autocast("cuda"):
        loss = net(x).mean()
    loss.backward()
""",
    """
import torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.float16).cuda()
optimizer = torch.optim.RMSprop(model.parameters(), 1e-4, 0.99)
model.train()
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
""",
)

GOOD = (
    """
import torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.float16).cuda()
model.float()
other = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.float16).cuda()
a = torch.optim.AdamW(model.parameters(), lr=1e-4)
b = torch.optim.Adam(other.parameters(), lr=1e-4, fused=True)
model.train()
other.train()
for batch in loader:
    (model(**batch).loss + other(**batch).loss).backward()
    a.step()
    b.step()
    a.zero_grad()
    b.zero_grad()
""",
    """
import torch
from torch import nn
net = nn.Linear(8, 8).cuda()
for x in loader:
    with torch.autocast("cuda"):
        h = net(x)
        total = h.float().sum() + 1e-8
        shifted = h.softmax(-1) + 1e-10
        bounded = h.clamp(min=1e-4)
    y = net(x).bfloat16() + 1e-8
    (total + shifted.sum() + y.sum() + bounded.sum() + (net(x) + 1e-8).sum()).backward()
""",
)

_SMALLEST = 2**-25  # half of the smallest number above zero: what is below is rounded to zero
_ADAMS = ("Adam", "AdamW", "NAdam", "RAdam", "RMSprop")


def check(context: Context) -> Iterator[Finding]:
    """Look at optimizers over float16 weights, and at constants that meet float16 tensors."""
    yield from _optimizers(context)
    made = graph(context)
    for value in [*made.made("+", "add", "clamp", "clamp_min", "clip", "maximum")]:
        constant = _constant(value)
        if constant is None or not 0 < constant < _SMALLEST or not is_half(_other(value), value.context):
            continue
        yield context.finding(
            RULE,
            value,
            f"{constant:g} is zero in float16, whose smallest number is 6e-8: it protects from nothing here",
            evidence=[
                Evidence("constant", constant),
                Evidence("rounded to zero below", _SMALLEST, source="published", arithmetic="2^-25 = 3.0e-8"),
            ],
            fix=Fix(
                title="use a constant that float16 has",
                instruction="compute this line in float32 (x.float()), or use at least 1e-7",
                expected="the denominator is never zero",
            ),
        )


def _optimizers(context: Context) -> Iterator[Finding]:
    if managed(context) or context.reading.imports & {"apex", "deepspeed", "fairscale", "peft"}:
        return
    for update in updates(context):
        optimizer, step = update.optimizer, update.steps[0]
        kind = optimizer.name.rpartition(".")[2]
        if not optimizer.name.startswith("torch.optim.") or kind not in _ADAMS or step.context.shadow:
            continue
        given = optimizer.argument(3, "eps")
        eps = plain(given) if given is not None else (None if optimizer.open_args else 1e-8)
        if not isinstance(eps, float) or eps >= _SMALLEST or plain(optimizer.kwargs.get("fused"), False):
            continue
        weights = weights_of(context, optimizer, step)
        # Casts of the whole network are a finding of their own: fp16-weights-with-optimizer.
        if weights is None or weights[0] != "float16" or last_cast(context, optimizer, step) is not None:
            continue
        yield context.finding(
            RULE,
            context.reading.event_of(optimizer) or optimizer,
            f"{kind} trains float16 weights with an eps of {eps:g}, which is zero in float16: it divides by zero",
            evidence=[
                Evidence("eps", eps),
                Evidence("rounded to zero below", _SMALLEST, source="published", arithmetic="2^-25 = 3.0e-8"),
            ],
            related=[(weights[1], "the weights are float16 from here on")],
            fix=Fix(
                title="keep the weights in float32",
                instruction="load the model in float32 and compute under torch.autocast",
                expected="states and eps have a resolution that Adam can work with",
            ),
        )


def _constant(value: Obj) -> float | None:
    """The constant that is added, or that a value is clamped to from below."""
    if value.kind == "op":
        numbers = [plain(a) for a in value.args]
    elif value.name in ("torch.clamp", ".clamp", "torch.clip", ".clip"):
        numbers = [plain(option(value, 0, "min"))]
    else:
        numbers = [plain(option(value, 0, "other")), plain(option(value, 0, "min"))]
    found = [n for n in numbers if isinstance(n, float)]
    return found[0] if len(found) == 1 else None


def _other(value: Obj) -> Value | None:
    """The tensor that the constant meets."""
    if value.kind == "op":
        return next((a for a in value.args if plain(a) is None), None)
    return operand(value)
