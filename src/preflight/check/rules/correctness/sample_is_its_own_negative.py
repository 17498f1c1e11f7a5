"""Each sample is compared with itself in a contrastive loss.

## What it does
Where a cross-entropy is given the products of one set of samples with itself, `z @ z.t()`, and counted targets, looks for what takes the diagonal out.

## Why
The product of a sample with itself is the greatest of its row.
As a negative it keeps the loss high and pushes nothing that can be learned; as the target it makes the loss small from the start, without any learning.

## Fix
Fill the diagonal with `-inf` before the cross-entropy.

## When to ignore
When the diagonal is taken out where it was not seen.

## References
- Chen et al., "A simple framework for contrastive learning of visual representations", 2020, equation 1: the sum leaves k = i out
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.similarities import one, similarities
from preflight.check.queries.tensors import source_text
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="sample-is-its-own-negative",
    code="CON003",
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
def train(logits, target):
    optimizer.zero_grad()
    F.cross_entropy(logits, target).backward()
    optimizer.step()
"""

BAD = (
    f"""{_HEAD}
for a, b in loader:
    n = len(a)
    z = F.normalize(encoder(torch.cat([a, b])), dim=1)
    train(z @ z.t() / 0.5, torch.cat([torch.arange(n, 2 * n), torch.arange(n)]))
""",
    f"""{_HEAD}
def similarity(z):
    return torch.matmul(z, z.T) / 0.1
for a, b in loader:
    z = F.normalize(encoder(torch.cat([a, b])), dim=1)
    train(similarity(z), (torch.arange(2 * len(a)) + len(a)))
""",
    f"""{_HEAD}
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--temperature", type=float, default=0.2)
args = parser.parse_args()
class Loss(nn.Module):
    def forward(self, z):
        return z.mm(z.transpose(0, 1)).div(args.temperature)
loss = Loss()
for x in loader:
    train(loss(F.normalize(encoder(x), dim=-1)), torch.arange(len(x)))
""",
)

GOOD = (
    f"""{_HEAD}
for a, b in loader:
    n = len(a)
    z = F.normalize(encoder(torch.cat([a, b])), dim=1)
    sim = (z @ z.t() / 0.5).masked_fill(torch.eye(2 * n, dtype=torch.bool), float("-inf"))
    train(sim, torch.cat([torch.arange(n, 2 * n), torch.arange(n)]))
""",
    f"""{_HEAD}
for a, b in loader:
    z = F.normalize(encoder(a), dim=1)
    sim = z @ z.t()
    sim.fill_diagonal_(-1e9)
    train(sim, torch.arange(len(a)))
    train(z @ F.normalize(encoder(b), dim=1).t() / 0.1, torch.arange(len(a)))
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Look at products of one set with itself."""
    told: set[int] = set()
    for found in similarities(context):
        if found.masked or not one(found.left, found.right) or id(found.product) in told or _written(context):
            continue
        told.add(id(found.product))
        yield context.finding(
            RULE,
            found.product,
            f"{source_text(context, found.product)} holds each sample's product with itself, the greatest of its row, and the loss counts it",
            evidence=[Evidence("entries of the diagonal that are masked", 0)],
            related=[(found.call.event, "the loss")],
            fix=Fix(
                title="take the diagonal out",
                safe=False,
                instruction='write sim.masked_fill(torch.eye(len(sim), dtype=torch.bool, device=sim.device), float("-inf")) before the loss',
                expected="a sample is compared with the others only",
            ),
        )


def _written(context: Context) -> bool:
    """Whether a script writes into tensors in place in a way that may take a diagonal out."""
    names = (".fill_diagonal_", ".masked_fill_", ".scatter_", ".index_put_", ".sub_", ".diagonal", ".diag")
    return bool(context.trace.calls(*names)) or any(s.name == "[]" for s in context.trace.stores)
