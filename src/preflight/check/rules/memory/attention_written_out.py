"""Attention is written out where a fused kernel applies.

## What it does
Looks for `softmax(q @ k.T) @ v` in the forward pass of a network that is trained.

## Why
Written out, attention stores the scores, their soft-max, and with dropout a third tensor, each of batch x heads x sequence x sequence, for the backward pass.
At batch 8, 16 heads, 2,048 tokens and bf16 one of them is 8 x 16 x 2,048 x 2,048 x 2 bytes = 1.07 GB per layer.
`scaled_dot_product_attention` keeps none of them: its memory grows with the sequence length, not with its square, and it reads and writes device memory less.

## Fix
Call `torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=..., dropout_p=..., is_causal=...)`.

## When to ignore
When the attention weights themselves are needed, for example to show them, or when the sequence is short.

## References
- PyTorch documentation, `torch.nn.functional.scaled_dot_product_attention`
- Dao et al., "FlashAttention", 2022
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import Known, Obj, Seq, Value, options_of, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="attention-written-out",
    code="MEM023",
    severity="info",
    confidence="likely",
    needs=("forward",),
    layer="D",
    tags=("memory", "attention"),
)

_TRAIN = """
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
"""
BAD = (
    """
import math, torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 64)
    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(64)
        weights = torch.softmax(scores, dim=-1)
        return weights @ v
"""
    + _TRAIN,
    """
import torch
import torch.nn.functional as F
from torch import nn
def attend(q, k, v, mask, drop):
    att = torch.matmul(q, k.permute(0, 2, 1)) * 0.125
    att = att.masked_fill(mask == 0, float("-inf"))
    return torch.bmm(drop(F.softmax(att, -1)), v)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(64, 192)
        self.drop = nn.Dropout(0.1)
    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return attend(q, k, v, self.mask, self.drop)
"""
    + _TRAIN,
    """
import argparse, torch
from torch import einsum, nn
parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, default=64)
args = parser.parse_args()
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.to_qkv = nn.Linear(args.width, 3 * args.width)
        self.attend = nn.Softmax(dim=-1)
    def forward(self, x):
        q, k, v = self.to_qkv(x).chunk(3, dim=-1)
        dots = einsum("b i d, b j d -> b i j", q, k)
        return torch.einsum("b i j, b j d -> b i d", self.attend(dots), v)
"""
    + _TRAIN,
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 64)
    def forward(self, x):
        scores = self.q(x) @ self.k(x).transpose(-2, -1)
        weights = torch.softmax(input=scores, dim=-1)
        return weights @ self.v(x)
"""
    + _TRAIN,
)
GOOD = (
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(64, 192), nn.Linear(64, 10)
    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        return torch.softmax(self.out(y), -1) @ self.out.weight
"""
    + _TRAIN,
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.experts = nn.Linear(64, 8), nn.Linear(64, 64)
    def forward(self, x):
        weights = torch.softmax(self.gate(x), dim=-1)
        pooled = torch.softmax(x @ x.mean(1, keepdim=True), dim=1)
        return (weights * self.experts(x)).sum(-1), pooled
"""
    + _TRAIN.replace("model(x)", "model(x)[0]"),
)

_PRODUCTS = frozenset(("@", ".matmul", ".bmm", "torch.matmul", "torch.bmm", "torch.baddbmm"))
_EINSUM = "torch.einsum"
_TURNS = frozenset((".transpose", ".permute", ".swapaxes", "torch.transpose", "torch.permute"))
_SOFTMAX = frozenset(("torch.softmax", ".softmax", "torch.nn.functional.softmax"))
_FUSED = ("torch.nn.functional.scaled_dot_product_attention", "torch.nn.attention.flex_attention.flex_attention")
# What may stand between the scores and their soft-max, and between the soft-max and the product with the values.
_BETWEEN = frozenset(
    ("+", "-", "*", "/", ".masked_fill", ".masked_fill_", ".float", ".to", ".type_as", ".type", ".contiguous", ".view", ".reshape",
     ".clamp", ".mul", ".div", ".add", ".mul_", ".div_", ".add_", "torch.where", "torch.masked_fill", "torch.nn.functional.dropout",
     "()", ".half", ".bfloat16", ".unsqueeze", ".squeeze", ".expand", "torch.nan_to_num")
)  # fmt: skip


def check(context: Context) -> Iterator[Finding]:
    """Find the product, soft-max, product of attention in forward passes that are trained."""
    if not (context.reading.loops or context.reading.made("trainer") or context.reading.made("lightning_trainer")):
        return
    if context.trace.calls(*_FUSED) or context.trace.calls_under("flash_attn.", "xformers.ops."):
        return  # what is written out is for where the fused kernel is missing
    products = _products(context)
    seen: set[int] = set()
    for event in context.trace.calls(*_SOFTMAX, "()"):
        if event.context.shadow or id(event.node) in seen or not _is_softmax(event):
            continue
        scores = event.receiver if event.name == ".softmax" else event.argument(0, "input")
        first = _product_before(scores)
        if first is None or not _feeds_product(event, products):
            continue
        seen.add(id(event.node))
        yield context.finding(
            RULE,
            event,
            "attention is written out: the scores and their soft-max, batch x heads x sequence x sequence, are kept for the backward pass",
            evidence=[
                Evidence(
                    "tensors of sequence x sequence kept",
                    2,
                    None,
                    "derived",
                    "scores and soft-max, a third with dropout",
                )
            ],
            related=[(first, "the scores")],
            fix=Fix(
                title="use scaled_dot_product_attention",
                instruction="torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=..., dropout_p=..., is_causal=...)",
                expected="activation memory of attention grows with the sequence length instead of its square",
            ),
        )


def _is_softmax(event: Event) -> bool:
    if event.name != "()":
        return True
    return any(isinstance(o, Obj) and o.name == "torch.nn.Softmax" for o in options_of(event.receiver))


def _is_product(value: Obj) -> bool:
    return (value.name in _PRODUCTS and (value.kind == "op") == (value.name == "@")) or value.name == _EINSUM


def _product_before(value: Value | None) -> Obj | None:
    """The product of queries and transposed keys that scores come from."""
    for product in _walk(value):
        if not _is_product(product):
            continue
        if product.name == _EINSUM:
            return product if len(product.args) == 3 and _pairs(product) else None
        operands = [*([product.receiver] if product.name.startswith(".") else []), *product.args]
        if any(_turned(o) for o in operands if o is not None):
            return product
        return None
    return None


def _pairs(product: Obj) -> bool:
    """Whether an einsum keeps one free axis of each operand: queries against keys."""
    equation = settle(product.args[0])
    if not isinstance(equation, Known) or not isinstance(equation.value, str) or "->" not in equation.value:
        return False
    inputs, output = equation.value.split("->")
    parts = [set(p.split()) if " " in p.strip() else set(p.strip()) for p in inputs.split(",")]
    result = set(output.split()) if " " in output.strip() else set(output.strip())
    if len(parts) != 2:
        return False
    a, b = parts
    return bool((a - b) & result) and bool((b - a) & result) and bool((a & b) - result) and bool(a & b & result)


def _turned(value: Value) -> bool:
    """Whether an operand had its last two axes swapped: keys that are turned to meet the queries."""
    for option in options_of(value, limit=4):
        current: Value = option
        for _ in range(4):
            if not isinstance(current, Obj):
                break
            if _swaps(current):
                return True
            if current.name not in (".contiguous", ".to", ".view", ".reshape", "*", "/"):
                break
            inner = current.receiver or (current.args[0] if current.args else None)
            if inner is None:
                break
            current = next(iter(options_of(inner)))
    return False


def _swaps(value: Obj) -> bool:
    """Whether a value is another one with its last two axes swapped, as far as the axes are known."""
    if (value.kind == "attr" and value.name in ("T", "mT")) or value.name == ".t":
        return True
    if value.name not in _TURNS:
        return False
    axes = [settle(a) for a in (value.args if value.name.startswith(".") else value.args[1:])]
    if len(axes) == 1 and isinstance(axes[0], Seq):
        axes = [settle(a) for a in axes[0].items]
    numbers = [a.value for a in axes if isinstance(a, Known) and isinstance(a.value, int)]
    if len(numbers) != len(axes) or len(numbers) < 2:
        return False
    if "permute" in value.name:
        return numbers[-2] > numbers[-1]
    return set(numbers) in ({-1, -2}, {2, 3}, {1, 2})


def _walk(value: Value | None) -> Iterator[Obj]:
    """A value and what it was made from, through what may stand between the parts of attention."""
    stack: list[Value] = [value] if value is not None else []
    seen: set[int] = set()
    while stack and len(seen) < 40:
        for option in options_of(stack.pop(), limit=4):
            if not isinstance(option, Obj) or id(option) in seen:
                continue
            seen.add(id(option))
            yield option
            if option.name in _BETWEEN:
                first = option.receiver if option.name.startswith(".") else None
                stack.extend(reversed([v for v in (first, *option.args) if v is not None and not isinstance(v, Seq)]))


def _products(context: Context) -> set[int]:
    """Identities of all that goes into a product, through dropout and the like."""
    found: set[int] = set()
    for value in _all_products(context):
        operands = [value.receiver if value.name.startswith(".") else None, *value.args]
        for operand in operands:
            found.update(id(o) for o in _walk(operand))
    return found


def _all_products(context: Context) -> Iterator[Obj]:
    for event in context.trace.calls(*(n for n in _PRODUCTS if n != "@"), _EINSUM):
        if isinstance(event.result, Obj):
            yield event.result
    # Operators are no events: they are found among what other events and modules return.
    for event in context.trace.events:
        for value in (event.receiver, *event.args, event.result):
            parts = value.items if isinstance(value, Seq) else [value]
            for part in parts[:8]:
                for option in options_of(part, limit=3):
                    if isinstance(option, Obj) and option.kind == "op" and option.name == "@":
                        yield option


def _feeds_product(event: Event, products: set[int]) -> bool:
    return any(id(o) in products for o in options_of(event.result))
