"""A soft-max row is completely masked.

## What it does
Reports masks of minus infinity before a soft-max that hide every key of some query: a triangular mask that hides the diagonal too, and a mask that is the product of one padding mask with itself.

## Why
The soft-max of a row of minus infinities is 0 / 0: NaN.
Even when the row is left out of the loss, its gradient is 0 times NaN, and after one step all weights are NaN.

## Fix
Hide only keys (`mask[:, None, None, :]`), keep the diagonal (`triu(..., diagonal=1)`), or use `torch.finfo(dtype).min` in the place of minus infinity.

## When to ignore
When no sequence is padded.

## References
- PyTorch documentation of softmax; of `nan_to_num`
- PyTorch 2.5 release notes: scaled_dot_product_attention returns 0 for rows that are completely masked
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.attention import mask_shape
from preflight.check.queries.tensors import VIEWS, graph, operand, operation, option, origin, second, source_text
from preflight.check.rule import Rule
from preflight.source.values import Known, Obj, Seq, Value, plain, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="softmax-over-nothing", code="NUM005", severity="error", confidence="likely", layer="D",
    tags=("numerics", "attention"),
)  # fmt: skip

BAD = (
    """
import torch
from torch import nn
net = nn.Linear(16, 16)
for x in loader:
    scores = net(x) @ x.transpose(1, 2)
    mask = torch.triu(torch.ones(32, 32)).bool()
    weights = scores.masked_fill(mask, float("-inf")).softmax(dim=-1)
    (weights @ x).sum().backward()
""",
    """
import math, torch
import torch.nn as nn
import torch.nn.functional as F
class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q, self.k = nn.Linear(width, width), nn.Linear(width, width)
    def forward(self, x, valid):
        scores = self.q(x) @ self.k(x).transpose(-2, -1)
        pairs = valid.unsqueeze(1) * valid.unsqueeze(2)
        scores = torch.masked_fill(scores, pairs == 0, -math.inf)
        return F.softmax(scores / 8, dim=-1) @ x
attention = Attention(64)
for x, valid in loader:
    attention(x, valid).mean().backward()
""",
    """
import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--fill", type=float, default=float("-inf"))
args = p.parse_args()
def hidden(n):
    return torch.tril(torch.ones(n, n), diagonal=-1) == 0
net = torch.nn.Linear(8, 8)
for x in loader:
    scores = torch.bmm(net(x), x.mT)
    torch.softmax(scores.masked_fill(hidden(64), args.fill), -1).sum().backward()
""",
)

GOOD = (
    """
import torch
from torch import nn
net = nn.Linear(16, 16)
for x, valid in loader:
    scores = net(x) @ x.transpose(1, 2)
    causal = torch.triu(torch.ones(32, 32), diagonal=1).bool()
    a = scores.masked_fill(causal, float("-inf")).softmax(dim=-1)
    b = scores.masked_fill(~valid[:, None, :], float("-inf")).softmax(dim=-1)
    pairs = valid.unsqueeze(1) & valid.unsqueeze(2)
    c = scores.masked_fill(~pairs, torch.finfo(scores.dtype).min).softmax(dim=-1)
    d = scores.masked_fill(~pairs, float("-inf")).softmax(dim=-1).nan_to_num(0.0)
    ((a + b + c + d) @ x).sum().backward()
""",
    """
import torch
from torch import nn
net = nn.Linear(16, 16)
for x, queries, keys in loader:
    scores = net(x) @ x.transpose(1, 2)
    pairs = queries.unsqueeze(2) * keys.unsqueeze(1)
    weights = scores.masked_fill(pairs == 0, float("-inf")).softmax(-1)
    weights = torch.where(torch.isnan(weights), torch.zeros_like(weights), weights)
    upper = scores.masked_fill(torch.triu(torch.ones(8, 8)).bool(), 0.0).softmax(-1)
    (weights.sum() + upper.sum()).backward()
""",
)

_SCALED = VIEWS | {"/", "*", "+", "div", "mul", "dropout"}


def check(context: Context) -> Iterator[Finding]:
    """Look at the mask before each soft-max."""
    made = graph(context)
    for value in [*made.made("softmax", "log_softmax")]:
        scores = origin(operand(value), VIEWS | {"/", "*", "div", "mul"})
        if scores is None or operation(scores) not in ("masked_fill", "masked_fill_") or not _last(value):
            continue
        if plain(option(scores, 1, "value")) != float("-inf"):
            continue
        found = _hides_a_row(option(scores, 0, "mask"))
        if found is None or _mended(context, value):
            continue
        text, mask = found
        yield context.finding(
            RULE,
            scores,
            f"{text}: the soft-max of such a row is NaN, and so are all gradients",
            evidence=[
                Evidence("mask", source_text(context, mask)),
                Evidence("filled with", "-inf", arithmetic="0 / 0 = NaN"),
            ],
            related=[(value, "the soft-max is here"), (mask, "the mask is made here")],
            fix=Fix(
                title="leave each query at least one key",
                instruction="hide keys only, keep the diagonal visible, or fill with torch.finfo(scores.dtype).min",
                expected="every row of weights sums to 1",
            ),
        )


def _last(value: Obj) -> bool:
    """Whether the soft-max is over the keys."""
    dim = plain(option(value, 0, "dim"))
    return dim in (-1, 2, 3)


def _hides_a_row(mask: Value | None) -> tuple[str, Value] | None:
    """Why a mask (True where a key is hidden) hides all keys of some query."""
    shape = mask_shape(mask)
    if shape is not None and mask is not None:
        # Hidden are the diagonal and all above: nothing is left for the first query.
        if shape.true_above and shape.true_on_diagonal:
            return "the mask hides the diagonal and everything above it, so the first query has no key left", mask
        return None
    pairs = _inverted(mask)
    found = _product(pairs)
    if found is not None and mask is not None:
        return "the mask hides all keys of a query that is padding", found
    return None


def _inverted(mask: Value | None) -> Obj | None:
    """What a mask is the opposite of: ``pairs == 0``, ``~pairs``."""
    base = origin(mask, VIEWS | {"bool"})
    name = operation(base)
    if base is None:
        return None
    if name in ("~", "logical_not"):
        return origin(operand(base), VIEWS | {"bool"})
    if name in ("==", "eq"):
        other = second(base)
        return origin(operand(base), VIEWS | {"bool"}) if plain(other) in (0, False) else None
    return None


def _product(value: Obj | None) -> Obj | None:
    """The product of a mask along the queries with the same mask along the keys."""
    if value is None or operation(value) not in ("*", "&", "mul", "logical_and", "and"):
        return None
    parts = [value.receiver, *value.args] if value.kind == "call" and value.name.startswith(".") else list(value.args)
    sides = [side for part in parts if part is not None and (side := _stretched(part)) is not None]
    if len(sides) != 2 or sides[0][0] is not sides[1][0]:
        return None
    return value if {side for _, side in sides} == {"query", "key"} else None


def _stretched(value: Value | None) -> tuple[Value, str] | None:
    """A mask of shape (batch, length) with dimensions added, and along which side of the scores it then lies."""
    base = settle(value) if value is not None else None
    added: list[int] = []
    while isinstance(base, Obj) and operation(base) == "unsqueeze" and len(added) < 4:
        dim = plain(option(base, 0, "dim"))
        inner = operand(base)
        if not isinstance(dim, int) or inner is None:
            return None
        added.append(dim)
        base = settle(inner)
    axes: list[str] = ["batch", "length"]
    for dim in reversed(added):
        axes.insert(dim if dim >= 0 else len(axes) + 1 + dim, "")
    if isinstance(base, Obj) and not added and operation(base) == "[]" and base.receiver is not None:
        key = settle(base.args[0]) if base.args else None
        parts = [settle(k) for k in key.items] if isinstance(key, Seq) else []
        kept = iter(axes)
        axes = ["" if isinstance(p, Known) and p.value is None else next(kept, "?") for p in parts]
        axes += list(kept)
        base = settle(base.receiver)
    if base is None or "length" not in axes[-2:] or len(axes) < 3:
        return None
    return base, "key" if axes[-1] == "length" else "query"


def _mended(context: Context, value: Obj) -> bool:
    """Whether NaN is replaced afterwards."""
    made = graph(context)
    for other in made.made("nan_to_num", "nan_to_num_", "isnan", "isfinite", "masked_fill", "masked_fill_", "where"):
        inputs = [operand(other), *other.args]
        if any(origin(i, _SCALED) is value for i in inputs):
            return True
    return False
