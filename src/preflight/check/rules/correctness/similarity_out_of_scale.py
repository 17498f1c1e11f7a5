"""The similarities of a contrastive loss are not those of unit vectors over a temperature.

## What it does
Where a cross-entropy is given products of samples with samples, `a @ b.t()`, and counted targets, looks at their scale: vectors that were not brought to length one although a temperature below 1 divides them, vectors that were normalised over the batch instead of the features, and a temperature below 1 that multiplies where it has to divide.

## Why
Cosine similarities lie between -1 and 1.
Multiplied by 0.1, the positive can exceed the negatives by 0.2 at most: with 512 samples the loss stays above 6.04 of 6.24, whatever is learned.
Without normalisation the logits grow with the length of the vectors, and the loss is made small by making them long.

## Fix
Write `F.normalize(z, dim=1)` and `z @ z.t() / temperature`.

## When to ignore
When the products are meant to be unbounded, as in dense retrieval, which uses no temperature.

## References
- Chen et al., "A simple framework for contrastive learning of visual representations", 2020, section 2.1
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.similarities import Similarity, similarities, unit_dimension
from preflight.check.queries.tensors import source_text
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding, Severity

RULE = Rule(
    name="similarity-out-of-scale",
    code="CON002",
    severity="error",
    confidence="likely",
    needs=("training_loop",),
    layer="D",
    tags=("loss", "contrastive"),
)

_HEAD = """
import torch
from torch import nn
import torch.nn.functional as F
encoder = nn.Linear(8, 4)
optimizer = torch.optim.Adam(encoder.parameters())
def train(logits, n):
    optimizer.zero_grad()
    F.cross_entropy(logits, torch.arange(n)).backward()
    optimizer.step()
"""

BAD = (
    f"""{_HEAD}
temperature = 0.1
for a, b in loader:
    za, zb = F.normalize(encoder(a), dim=1), F.normalize(encoder(b), dim=1)
    train(za @ zb.t() * temperature, len(a))
""",
    f"""{_HEAD}
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--temperature", type=float, default=0.07)
args = parser.parse_args()
def info_nce(za, zb):
    return torch.matmul(za, zb.T) / args.temperature
for a, b in loader:
    train(info_nce(encoder(a), encoder(b)), len(a))
""",
    f"""{_HEAD}
class Loss(nn.Module):
    def __init__(self, temperature=0.5):
        super().__init__()
        self.t = temperature
    def forward(self, a, b):
        a, b = F.normalize(a, dim=0), F.normalize(b, dim=0)
        return torch.mm(a, b.t()).div(self.t)
loss = Loss()
for a, b in loader:
    train(loss(encoder(a), encoder(b)), len(a))
""",
)

GOOD = (
    f"""{_HEAD}
temperature = 0.1
for a, b in loader:
    za, zb = F.normalize(encoder(a), dim=1), F.normalize(encoder(b), dim=-1)
    train(za @ zb.t() / temperature, len(a))
    train(za @ zb.t() * 20, len(a))
    train(za @ zb.t() * encoder.bias.exp(), len(a))
""",
    f"""{_HEAD}
for a, b in loader:
    train(encoder(a) @ encoder(b).t(), len(a))
    ca, cb = F.normalize(encoder(a), dim=0), F.normalize(encoder(b), dim=0)
    train(ca.t() @ cb / 0.1, 4)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Look at the scale of each product."""
    told: set[int] = set()
    for found in similarities(context):
        units = [unit_dimension(found.left), unit_dimension(found.right)]
        said = _said(found.factor, units)
        if said is None or id(found.product) in told:
            continue
        told.add(id(found.product))
        yield _finding(context, found, *said)


def _said(factor: float | None, units: list[int | bool | None]) -> tuple[str, str, Severity] | None:
    """What is wrong with a scale, what to write, and how bad it is."""
    known = [u for u in units if u is not None and u is not False and u is not True]
    if len(known) == 2 and all(u in (0, -2) for u in known):
        return (
            "the vectors are normalised over the batch, not over their features: they have no unit length",
            "normalise with dim=1",
            "error",
        )
    if factor is None:
        return None
    if len(known) == 2 and all(u in (1, -1) for u in known) and 0 < factor < 1:
        return (
            f"cosine similarities are multiplied by {factor:g}: the logits lie within {factor:g} of zero, and the loss stays near that of guessing",
            "divide by the temperature",
            "error",
        )
    if any(u is False for u in units) and factor > 1:
        return (
            f"products of vectors of any length are divided by a temperature of {1 / factor:g}: the loss is made small by making the vectors long",
            "bring the vectors to length one with F.normalize(z, dim=1)",
            "warning",
        )
    return None


def _finding(context: Context, found: Similarity, what: str, instruction: str, severity: Severity) -> Finding:
    return context.finding(
        RULE,
        found.product,
        what,
        severity=severity,
        evidence=[
            Evidence("similarity", source_text(context, found.product)),
            Evidence("factor before the loss", found.factor, arithmetic="logits = cosine / temperature"),
        ],
        related=[(found.call.event, "the loss")],
        fix=Fix(
            title="scale cosine similarities by the temperature",
            safe=False,
            instruction=instruction,
            expected="the loss can fall to that of a clear positive",
        ),
    )
