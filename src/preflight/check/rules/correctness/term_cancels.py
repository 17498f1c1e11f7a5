"""A value is compared with itself, or subtracted from itself.

## What it does
Finds a regression loss whose input and target are one value, a difference or a quotient of a value with itself, and a term that enters a loss twice with opposite signs.

## Why
The result is zero (or one) whatever the model does, and so is its gradient: nothing is learned from it.
It comes from a name that was repeated where another one was meant, as in `(log_prob - log_prob).exp()` for the ratio to the old policy.

## Fix
Put the value that was meant on one of the sides.

## When to ignore
Never where gradients are meant to flow.

## References
- PyTorch documentation, "Autograd mechanics"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.losses import loss_calls
from preflight.check.queries.tensors import graph, source_text
from preflight.check.queries.terms import Term, loss_terms, operands
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import Obj, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="term-cancels",
    code="LOS014",
    severity="error",
    confidence="certain",
    needs=("training_loop",),
    layer="D",
    tags=("loss",),
)

BAD = (
    """
import torch.nn as nn
import torch.nn.functional as F
model = nn.Linear(4, 4)
for x, y in loader:
    pred = model(x)
    F.mse_loss(pred, pred).backward()
""",
    """
import torch
from torch import nn
from torch.distributions import Categorical
policy = nn.Linear(4, 2)
def ratio(new, old):
    return (new - old).exp()
for states, actions, old, adv in rollouts:
    new = Categorical(logits=policy(states)).log_prob(actions)
    loss = -(ratio(new, new) * adv).mean()
    loss.backward()
""",
    """
import argparse
import torch
from torch import nn
p = argparse.ArgumentParser()
p.add_argument("--beta", type=float, default=1.0)
args = p.parse_args()
net = nn.Linear(4, 4)
for x in loader:
    mu, logvar = net(x).chunk(2, dim=1)
    kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar)
    (args.beta * kl).backward()
""",
)

GOOD = (
    """
import torch.nn as nn
import torch.nn.functional as F
model, other = nn.Linear(4, 4), nn.Linear(4, 4)
for x, y in loader:
    pred, other_pred = model(x), other(x)
    ratio = (pred - pred.detach()).exp()
    (F.mse_loss(pred, other_pred) + ratio.mean()).backward()
""",
    """
import torch
from torch import nn
net = nn.Linear(4, 4)
for x in loader:
    mu, logvar = net(x).chunk(2, dim=1)
    hard = torch.round(mu)
    straight = mu + (hard - mu).detach()
    kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    (kl + straight.mean()).backward()
""",
    """
import torch
from torch import nn
class Padded(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
    def widen(self, x, wide, narrow):
        rows, columns = x.shape[:]
        return torch.cat((x, torch.zeros(x.shape[0], wide - narrow)), dim=1)
    def forward(self, x):
        rows, columns = x.shape[:]
        return self.widen(self.layer(x), columns, columns)
net = Padded()
for x in loader:
    net(x).mean().backward()
""",
)

_DISTANCES = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")


def check(context: Context) -> Iterator[Finding]:
    """Look for two sides that are one value."""
    told: set[int] = set()
    values = graph(context)
    for call in loss_calls(context, *_DISTANCES):
        if call.recorded and call.input is not None and call.target is not None and _one(call.input, call.target):
            yield _finding(context, call.event, call.input, f"{call.name} compares the value with itself: it is 0")
    for made in values.made("-", "sub", "/", "div"):
        pair = operands(made)
        if pair is not None and values.trains(made) and _one(*pair):
            told.add(id(settle(pair[0])))
            yield _finding(context, made, pair[0], "both sides are one value: the result does not depend on it")
    for terms in loss_terms(context):
        for first, second in _cancelling(terms):
            if id(first.value) not in told:
                told.add(id(first.value))
                yield _finding(
                    context,
                    second.value,
                    first.value,
                    f"it enters the loss with {first.factor:+g} and {second.factor:+g}: it cancels",
                )


def _one(first: Value, second: Value) -> bool:
    """Whether two sides are one tensor that something computed."""
    a, b = settle(first), settle(second)
    return a is b and isinstance(a, Obj) and a.kind in ("call", "op", "item") and not _size(a)


def _size(value: Obj) -> bool:
    """Whether a value is a length out of a shape: a number, of which sums and padding are made."""
    part: Value | None = value
    while isinstance(part, Obj) and part.kind == "item":
        part = settle(part.receiver) if part.receiver is not None else None
    return isinstance(part, Obj) and (part.name == ".size" or (part.kind == "attr" and part.name == "shape"))


def _cancelling(terms: list[Term]) -> Iterator[tuple[Term, Term]]:
    """Pairs of terms of one sum that are one value with opposite signs."""
    seen: dict[tuple[int, tuple[int, ...]], Term] = {}
    for term in terms:
        if not isinstance(term.value, Obj) or term.factor == 0:
            continue
        earlier = seen.setdefault((id(term.value), term.scale), term)
        if earlier.factor == -term.factor:
            yield earlier, term


def _finding(context: Context, place: Event | Value, held: Value, what: str) -> Finding:
    return context.finding(
        RULE,
        place,
        f"{source_text(context, held)} is on both sides: {what}, and nothing is learned from it",
        evidence=[Evidence("the value on both sides", source_text(context, held))],
        fix=Fix(
            title="compare with the value that was meant",
            safe=False,
            instruction="one of the two names was repeated: put the other value there",
            expected="the loss depends on what the model gives",
        ),
    )
