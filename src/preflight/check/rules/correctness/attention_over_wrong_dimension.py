"""The weights of an attention are normalised over another dimension than the keys.

## What it does
Looks at `softmax(q @ k.transpose(-2, -1), dim) @ v` and reports a `dim` that is not the last one.

## Why
The last dimension of the scores is that of the keys, over which the weights of a query have to add up to one.
Normalised over the heads or over the queries, a position takes more or less than one value in all, and in a causal model every weight depends on later queries: the loss falls by looking ahead, and generation is worse than it says.

## Fix
Write `softmax(scores, dim=-1)`.

## When to ignore
Where queries are meant to compete for keys, as in slot attention, whose weights are brought to one again afterwards.

## References
- Vaswani et al., "Attention is all you need", 2017, equation 1
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.head_layouts import Weights, rank, written_attention
from preflight.check.queries.tensors import operation, option, source_text
from preflight.check.queries.terms import operands
from preflight.check.rule import Rule
from preflight.source.values import plain
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="attention-over-wrong-dimension",
    code="ATT007",
    severity="error",
    confidence="likely",
    layer="D",
    tags=("attention",),
)

BAD = (
    """
import math, torch
from torch import nn
import torch.nn.functional as F
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(64, 192)
    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.qkv(x).split(64, dim=2)
        q, k, v = (t.view(B, T, 4, 16).transpose(1, 2) for t in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(16))
        att = F.softmax(att, dim=1)
        return (att @ v).transpose(1, 2).reshape(B, T, C)
net = Attention()
for x in loader:
    net(x).sum().backward()
""",
    """
import torch
from torch import nn
softmax = nn.Softmax(dim=-2)
drop = nn.Dropout(0.1)
def attention(q, k, v, mask):
    scores = torch.matmul(q, k.transpose(-1, -2)) / 8
    weights = drop(softmax(scores.masked_fill(mask, float("-inf"))))
    return torch.matmul(weights, v)
net = nn.Linear(64, 192)
for x, mask in loader:
    attention(*net(x).chunk(3, dim=-1), mask).sum().backward()
""",
    """
import argparse, torch
from torch import nn
parser = argparse.ArgumentParser()
parser.add_argument("--dim", type=int, default=1)
args = parser.parse_args()
q, k, v = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
for x in loader:
    scores = torch.bmm(q(x), k(x).transpose(1, 2))
    torch.bmm(torch.softmax(scores, dim=args.dim), v(x)).mean().backward()
""",
)

GOOD = (
    """
import torch
from torch import nn
q, k, v = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
for x in loader:
    scores = torch.bmm(q(x), k(x).transpose(1, 2))
    a = torch.bmm(torch.softmax(scores, dim=2), v(x))
    slots = torch.softmax(scores, dim=1)
    slots = slots / slots.sum(dim=2, keepdim=True)
    b = torch.bmm(slots, v(x))
    c = torch.softmax(q(x), dim=1) @ v(x)
    (a + b + c).mean().backward()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Compare the dimension of each soft-max with the last one."""
    told: set[int] = set()
    for found in written_attention(context):
        dim = plain(option(found.softmax, 0, "dim"))
        if not isinstance(dim, int) or isinstance(dim, bool) or id(found.softmax) in told:
            continue
        dims = _rank(found)
        if dim == -1 or (dim >= 0 and (dims is None or dim >= dims - 1)):
            continue
        told.add(id(found.softmax))
        yield context.finding(
            RULE,
            found.softmax,
            f"the weights of the attention are normalised over dimension {dim}, not over the keys, which are the last one",
            evidence=[
                Evidence("dim", dim),
                Evidence("scores", source_text(context, found.scores), arithmetic="(..., queries, keys)"),
            ],
            related=[(found.mixed, "the weights are used here")],
            fix=Fix(
                title="normalise over the keys",
                safe=False,
                instruction="give dim=-1 to the softmax",
                expected="the weights of each query add up to one",
            ),
        )


def _rank(found: Weights) -> int | None:
    pair = operands(found.scores)
    if operation(found.scores) == "bmm":
        return 3
    return rank(pair[0]) if pair is not None else None
