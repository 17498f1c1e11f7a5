"""A boolean attention mask with the wrong polarity.

## What it does
Reports triangular boolean masks that forbid what they should allow, and padding masks that mark the real tokens.
It also reports where all that goes into a layer, or the places of its tokens, are multiplied by the padding mask that the layer itself is given.
In `scaled_dot_product_attention`, True means that a position may be attended to; in `nn.MultiheadAttention` and the transformer layers, True means that it may not.

## Why
With the polarity reversed, each token sees only later ones: the model predicts the next token by looking at it.
The training loss is excellent and generation is useless.
A reversed padding mask hides all real tokens and shows the padding.

## Fix
Invert the mask.

## When to ignore
For attention that looks only forward on purpose.

## References
- PyTorch documentation of scaled_dot_product_attention and of MultiheadAttention
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.attention import ATTENTION, SDPA, mask_of, mask_shape, module_name
from preflight.check.queries.tensors import VIEWS, module_of, operand, operation, origin, source_text
from preflight.check.rule import Rule
from preflight.source.trace import Event, provenance
from preflight.source.values import Obj, Value, plain, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="mask-polarity-inverted", code="ATT005", severity="error", confidence="likely", layer="D", tags=("attention",)
)

BAD = (
    """
import torch
import torch.nn.functional as F
def attend(q, k, v):
    mask = torch.triu(torch.ones(64, 64), diagonal=1).bool()
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
""",
    """
import torch
from torch import nn
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(64, 4)
    def allowed(self, n):
        return torch.tril(torch.ones(n, n, dtype=torch.bool))
    def forward(self, x):
        return self.attention(x, x, x, attn_mask=self.allowed(len(x)))[0]
block = Block()
for x in loader:
    block(x).sum().backward()
""",
    """
import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--pad", type=int, default=0)
args = p.parse_args()
embed = torch.nn.Embedding(1000, 64, padding_idx=args.pad)
encoder = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(64, 4), 2)
for ids in loader:
    h = embed(ids)
    encoder(h, src_key_padding_mask=(ids != args.pad)).sum().backward()
""",
    """
import torch, torch.nn as nn
table = nn.Embedding(65, 64)
embed = nn.Embedding(1000, 64)
layer = nn.TransformerEncoderLayer(64, 4)
for ids, lengths in loader:
    padding = torch.arange(64)[None] >= lengths[:, None]
    places = torch.arange(1, 65)[None] * padding
    layer(embed(ids) + table(places), src_key_padding_mask=padding).sum().backward()
""",
)

GOOD = (
    """
import torch, torch.nn as nn
import torch.nn.functional as F
layer = nn.TransformerEncoderLayer(64, 4)
embed = nn.Embedding(1000, 64, padding_idx=0)
for ids in loader:
    n = ids.size(1)
    h = layer(embed(ids), torch.triu(torch.ones(n, n), 1).bool(), src_key_padding_mask=(ids == 0))
    h = layer(h, torch.tril(torch.ones(n, n)) == 0, src_key_padding_mask=~(ids != 0))
    h = F.scaled_dot_product_attention(h, h, h, attn_mask=torch.tril(torch.ones(n, n)).bool())
    h = F.scaled_dot_product_attention(h, h, h, attn_mask=~torch.triu(torch.ones(n, n, dtype=torch.bool), diagonal=1))
    h.sum().backward()
""",
    """
import torch, torch.nn as nn
attention = nn.MultiheadAttention(64, 4)
for x, valid in loader:
    attention(x, x, x, key_padding_mask=~valid)[0].sum().backward()
""",
    """
import torch, torch.nn as nn
table = nn.Embedding(65, 64)
layer = nn.TransformerEncoderLayer(64, 4)
filler = nn.Parameter(torch.zeros(64))
for x, lengths in loader:
    padding = torch.arange(64)[None] >= lengths[:, None]
    h = x * ~padding[..., None] + filler * padding[..., None]
    bias = padding * -1e9
    layer(h + table(torch.arange(1, 65)[None] * ~padding) + bias[..., None], src_key_padding_mask=padding).sum().backward()
""",
    """
import torch, torch.nn as nn
layer = nn.TransformerEncoderLayer(64, 4)
join, drop, filler = nn.Linear(65, 64), nn.Dropout(0.1), nn.Parameter(torch.zeros(64))
for x, lengths in loader:
    padding = torch.arange(64)[None] >= lengths[:, None]
    hidden = padding[..., None]
    x = torch.add(x, drop(filler * hidden)) - drop(x * hidden)
    x = torch.where(hidden, filler * hidden, x)
    x = join(torch.cat([x, torch.ones(8, 64, 1) * hidden], -1))
    layer(x / (1 + (x * hidden).pow(2).mean()), src_key_padding_mask=padding).sum().backward()
""",
)

_PADDING = {
    "torch.nn.MultiheadAttention": (("key_padding_mask", 3),),
    "torch.nn.TransformerEncoderLayer": (("src_key_padding_mask", 2),),
    "torch.nn.TransformerEncoder": (("src_key_padding_mask", 2),),
    "torch.nn.TransformerDecoder": (("tgt_key_padding_mask", 4), ("memory_key_padding_mask", 5)),
    "torch.nn.Transformer": (("src_key_padding_mask", 5), ("tgt_key_padding_mask", 6)),
}


def check(context: Context) -> Iterator[Finding]:
    """Look at the triangular and padding masks of each attention."""
    for event in context.trace.calls("()", *ATTENTION):
        for mask in mask_of(event):
            shape = mask_shape(mask)
            if shape is None or not shape.boolean:
                continue
            true_allows = event.name == SDPA
            # The future is allowed and the past is not.
            if shape.true_above is true_allows:
                yield _report(context, event, mask, shape.factory, true_allows)
        yield from _padding(context, event)


def _report(context: Context, event: Event, mask: Value, factory: Obj, true_allows: bool) -> Finding:
    meaning = "may be attended to" if true_allows else "may not be attended to"
    return context.finding(
        RULE,
        event,
        f"True in this mask means that a position {meaning}, so each token sees only later ones",
        evidence=[Evidence("mask", source_text(context, mask)), Evidence("True means", meaning, source="published")],
        related=[(factory, "the mask is made here")],
        fix=Fix(
            title="invert the mask",
            instruction="use tril(...).bool() for scaled_dot_product_attention, triu(..., diagonal=1).bool() for nn modules",
            expected="each token sees itself and earlier ones",
        ),
    )


def _padding(context: Context, event: Event) -> Iterator[Finding]:
    """A padding mask made by comparing the tokens with the padding id for inequality."""
    for keyword, position in _PADDING.get(module_name(event) or "", ()):
        mask = event.argument(position, keyword)
        yield from _multiplied(context, event, mask, keyword)
        found = origin(mask, VIEWS - {"float"})
        if found is None or operation(found) not in ("!=", "ne"):
            continue
        parts = [*found.args, *([found.receiver] if found.receiver is not None else [])]
        tokens = next((p for p in parts if isinstance(settle(p), Obj) or plain(p) is None), None)
        pad = _padding_id_of(event, tokens)
        if pad is None or not any(plain(p, object()) == pad for p in parts):
            continue
        yield context.finding(
            RULE,
            event,
            f"{keyword} is True where a token is hidden, but it is made with != {pad}: "
            "real tokens are hidden and padding is seen",
            evidence=[Evidence("mask", source_text(context, mask or found)), Evidence("padding id", pad)],
            related=[(found, "the mask is made here")],
            fix=Fix(
                title="mark the padding",
                instruction=f"compare with == {pad}",
                expected="padding is hidden and real tokens are seen",
            ),
        )


def _multiplied(context: Context, event: Event, mask: Value | None, keyword: str) -> Iterator[Finding]:
    """What goes in, multiplied by the mask that is True where a token is hidden."""
    hidden = origin(mask, items=True)
    if hidden is None:
        return
    for part in (part for given in event.args[:3] for part in _products(given, hidden)):
        yield context.finding(
            RULE,
            event,
            f"{keyword} is True where a token is hidden, and what goes in is multiplied by it: "
            "nothing is left of the real tokens, and the padding is kept",
            evidence=[Evidence("mask", source_text(context, mask or hidden))],
            related=[(part, "it is multiplied here"), (hidden, "the mask is made here")],
            fix=Fix(
                title="multiply by the inverted mask",
                instruction="multiply by ~mask, which is True at the real tokens",
                expected="the padding is zero and the real tokens keep their values",
            ),
        )
        return


_LAYERS = VIEWS | {"dropout", "nn.Dropout", "nn.Linear", "nn.LayerNorm", "nn.functional.dropout"}
_SUMS = frozenset({"+", "-", "add", "sub"})


def _products(given: Value | None, hidden: Obj) -> Iterator[Obj]:
    """Products with a mask that make up all that goes in, or the places of the tokens.

    What stands beside others, in a sum or a concatenation, may be what the padding is filled with.
    """
    stack: list[tuple[Value | None, str]] = [(given, "all")]
    for _ in range(60):
        if not stack:
            return
        value, role = stack.pop()
        part = origin(value, items=True)
        name = operation(part)
        if part is None or name is None:
            continue
        if name in _SUMS:
            stack += [(one, role if role == "places" else "part") for one in (*part.args, part.receiver)]
        elif name == "nn.Embedding":
            stack.append((operand(part), "places"))
        elif name in _LAYERS:
            stack.append((operand(part), role))
        elif part.kind == "op" and name == "*" and len(part.args) == 2:
            if role != "part" and _by_mask(part, hidden, role):
                yield part
            stack += [(one, role) for one in part.args]


def _by_mask(product: Obj, hidden: Obj, role: str) -> bool:
    """Whether a product is one with the mask, of what is no number: of places, where tokens are looked up by it."""
    origins = [origin(one, items=True) for one in product.args]
    numbers = any(plain(one) is not None for one in product.args)
    others = [one for one in origins if one is not hidden]
    if numbers or len(others) != 1:
        return False
    return role == "all" or operation(others[0]) in ("arange", "cumsum")


def _padding_id_of(event: Event, tokens: Value | None) -> int | None:
    """The padding id of the embedding that looked the same tokens up."""
    wanted = settle(tokens) if tokens is not None else None
    for argument in event.args:
        for part in provenance(argument, 200):
            module = module_of(part) if isinstance(part, Obj) else None
            if module is None or module.name != "torch.nn.Embedding" or not isinstance(part, Obj) or not part.args:
                continue
            pad = plain(module.argument(2, "padding_idx"))
            if isinstance(pad, int) and settle(part.args[0]) is wanted:
                return pad
    return None
