"""Attention that a script writes out: its scores, its weights, and how heads are laid out in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from preflight.check.queries.tensors import graph, is_method, operand, operation, option
from preflight.check.queries.terms import number, operands
from preflight.source.values import Obj, Seq, Value, plain, settle

if TYPE_CHECKING:
    from preflight.check.context import Context

PRODUCTS = frozenset({"@", "matmul", "bmm"})
_TURNS = frozenset({"transpose", "mT", "permute", "swapaxes"})
_SCALED = frozenset({"*", "/", "mul", "div", "+", "-", "add", "sub"})
_KEPT = frozenset({"masked_fill", "masked_fill_", "float", "to", "type_as", "clamp"})


class Weights(NamedTuple):
    """The weights of an attention and what they weigh.

    Attributes:
        softmax: The soft-max.
        scores: The product of queries and keys.
        mixed: The product of the weights with the values.
    """

    softmax: Obj
    scores: Obj
    mixed: Obj


def written_attention(context: Context) -> Iterator[Weights]:
    """Each attention that is written as ``softmax(q @ k^T) @ v``."""
    for product in [p for name in PRODUCTS for p in graph(context).made(name)]:
        pair = operands(product)
        weights = _under(pair[0], frozenset({"dropout", "to", "type_as", "float"})) if pair is not None else None
        if weights is None or operation(weights) != "softmax":
            continue
        scores = _scores(operand(weights))
        if scores is not None:
            yield Weights(weights, scores, product)


def _under(value: Value | None, through: frozenset[str]) -> Obj | None:
    """What made a value, seen through some operations."""
    for _ in range(20):
        base = settle(value) if value is not None else None
        if not isinstance(base, Obj) or operation(base) not in through:
            return base if isinstance(base, Obj) else None
        value = operand(base)
    return None


def _scores(value: Value | None) -> Obj | None:
    """The product of queries with turned keys, under scalings and masks."""
    for _ in range(20):
        base = settle(value) if value is not None else None
        if not isinstance(base, Obj):
            return None
        name, pair = operation(base), operands(base)
        if name in PRODUCTS and pair is not None:
            return base if operation(settle(pair[1])) in _TURNS else None
        if name in _SCALED and pair is not None:
            left = settle(pair[0])
            value = pair[1] if number(left) is not None else pair[0]
        elif name in _KEPT:
            value = operand(base)
        else:
            return None
    return None


def sizes(value: Value | None) -> list[Value] | None:
    """The sizes that a ``view`` or ``reshape`` gives."""
    base = settle(value) if value is not None else None
    if not isinstance(base, Obj) or operation(base) not in ("view", "reshape") or not is_method(base):
        return None
    first = settle(base.args[0]) if len(base.args) == 1 else None
    if isinstance(first, Seq):
        return None if first.open else list(first.items)
    return list(base.args) if len(base.args) > 1 and not base.open_args else None


def split_heads(value: Value | None) -> list[Value] | None:
    """The sizes (batch, time, heads, width) that a value had before ``transpose(1, 2)`` brought its heads forward."""
    base = _under(value, frozenset({"contiguous", "to", "float", "type_as"}))
    if base is None or operation(base) != "transpose":
        return None
    dims = {plain(option(base, 0, "dim0")), plain(option(base, 1, "dim1"))}
    found = sizes(operand(base))
    return found if dims == {1, 2} and found is not None and len(found) == 4 else None


def rank(value: Value | None) -> int | None:
    """The number of dimensions of queries, where a ``view`` or a ``bmm`` tells."""
    heads = split_heads(value)
    if heads is not None:
        return len(heads)
    found = sizes(_under(value, frozenset({"contiguous", "to", "float", "transpose", "permute"})))
    return len(found) if found is not None else None


def size_told(value: Value) -> tuple[object, object]:
    """What tells a size: a number, or the tensor and the dimension it is asked of, wherever that is written."""
    base = settle(value)
    told = number(base)
    if told is not None or not isinstance(base, Obj):
        return "number", told if told is not None else id(base)
    asked = settle(base.receiver) if base.kind == "item" and base.receiver is not None else None
    whole = isinstance(asked, Obj) and asked.name in (".size", "shape") and not asked.args
    if whole and isinstance(asked, Obj) and base.args and asked.receiver is not None:
        return id(settle(asked.receiver)), plain(base.args[0])
    if base.name == ".size" and base.args and base.receiver is not None:
        return id(settle(base.receiver)), plain(base.args[0])
    return "value", id(base)
