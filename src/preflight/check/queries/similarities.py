"""Similarities of samples that a cross-entropy is computed of: contrastive losses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from preflight.check.queries.losses import LossCall, loss_calls
from preflight.check.queries.tensors import VIEWS, module_of, operand, operation, option
from preflight.check.queries.terms import number, operands
from preflight.source.values import Choice, Obj, Seq, Value, plain, settle

if TYPE_CHECKING:
    from preflight.check.context import Context

_TURNS = frozenset({"t", "T", "mT", "transpose", "permute"})
_ALIKE = frozenset(
    {"zeros", "zeros_like", "ones", "ones_like", "new_zeros", "new_ones", "full", "full_like", "new_full"}
)
_EACH_WITH_EACH = re.compile(r"(\w)(\w),(\w)\2->\1\3")
"""How ``einsum`` is told to multiply each row of one side with each of the other."""
_UNSCALED = frozenset({"nn.Linear", "nn.Conv2d", "relu", "gelu", "nn.Embedding", "nn.EmbeddingBag"})
_COPIES = VIEWS - _TURNS


class Similarity(NamedTuple):
    """A product of samples with samples, as a cross-entropy is given it.

    Attributes:
        call: The loss.
        product: The matrix product.
        left: The rows.
        right: The columns, before they were turned.
        factor: The known number the product is multiplied by; None where something unknown scales it.
        masked: Whether entries are taken out or changed on the way.
    """

    call: LossCall
    product: Obj
    left: Value
    right: Value
    factor: float | None
    masked: bool


def similarities(context: Context) -> Iterator[Similarity]:
    """The similarities whose rows and columns are samples: ``a @ b.t()`` into a cross-entropy with indices as targets."""
    for call in loss_calls(context, "cross_entropy"):
        if not call.recorded or not _counted(call.target):
            continue
        found = _product(call.input)
        if found is None or operation(found[0]) == "einsum":
            continue
        product, factor, masked = found
        pair = operands(product)
        turned = _turned(pair[1]) if pair is not None else None
        if pair is not None and turned is not None:
            yield Similarity(call, product, pair[0], turned, factor, masked)


def of_one_target(context: Context) -> Iterator[Similarity]:
    """The same where each row is given one and the same number as its target: ``zeros(len(scores))``."""
    for call in loss_calls(context, "cross_entropy"):
        found = _product(call.input) if call.recorded and _alike(call.target) else None
        pair = _sides(found[0]) if found is not None and not found[2] else None
        if found is not None and pair is not None:
            yield Similarity(call, found[0], pair[0], pair[1], found[1], False)


def _sides(product: Obj) -> tuple[Value, Value] | None:
    """What a product compares: rows and columns, the latter before they were turned."""
    if operation(product) == "einsum":
        equation = plain(product.args[0]) if len(product.args) == 3 else None
        each = isinstance(equation, str) and _EACH_WITH_EACH.fullmatch(equation.replace(" ", ""))
        return (product.args[1], product.args[2]) if each else None
    pair = operands(product)
    turned = _turned(pair[1]) if pair is not None else None
    return (pair[0], turned) if pair is not None and turned is not None else None


def _alike(target: Value | None) -> bool:
    """Whether targets are made as one number for each sample."""
    for _ in range(8):
        base = settle(target) if target is not None else None
        if not isinstance(base, Obj):
            return False
        name = operation(base)
        if name in _ALIKE:
            return True
        if name not in VIEWS and name not in ("long", "int"):
            return False
        target = operand(base)
    return False


def _counted(target: Value | None) -> bool:
    """Whether the targets are counted up, one for each sample, and not labels of a data set."""
    stack, seen = [target], 0
    while stack and seen < 20:
        seen += 1
        value = stack.pop()
        base = settle(value) if value is not None else None
        if isinstance(base, Seq):
            stack += base.items
        elif isinstance(base, Obj):
            name = operation(base)
            if name == "arange":
                return True
            if name in VIEWS or name in ("cat", "concat", "long", "+", "stack"):
                stack += [operand(base), *base.args]
    return False


def _product(value: Value | None) -> tuple[Obj, float | None, bool] | None:
    """The matrix product under scalings and maskings, its factor, and whether it is masked."""
    factor: float | None = 1.0
    masked = False
    for _ in range(20):
        base = settle(value) if value is not None else None
        if isinstance(base, Choice) and base.preferred is not None:
            value = base.options[base.preferred]
            continue
        if not isinstance(base, Obj):
            return None
        name = operation(base)
        pair = operands(base)
        if name in ("@", "matmul", "mm", "einsum"):
            return base, factor, masked
        if name in ("*", "mul", "/", "div") and pair is not None:
            value, factor = _scaled(pair, name in ("/", "div"), factor)
        elif name in VIEWS - {"view", "reshape", "flatten"}:
            value = operand(base)
        else:
            masked = True
            value = pair[0] if name in ("-", "+") and pair is not None else operand(base)
    return None


def _scaled(pair: tuple[Value, Value], divided: bool, factor: float | None) -> tuple[Value, float | None]:
    """The side of a product that is no number, and the factor so far."""
    first, second = number(pair[0]), number(pair[1])
    if second:
        return pair[0], factor * (1 / second if divided else second) if factor is not None else None
    if first is not None and not divided:
        return pair[1], factor * first if factor is not None else None
    right = settle(pair[1])
    inner = isinstance(right, Obj) and operation(right) in ("@", "matmul", "mm")
    return (pair[1] if inner and not divided else pair[0]), None


def _turned(value: Value) -> Value | None:
    """What was turned to be the columns of a product."""
    base = settle(value)
    return operand(base) if isinstance(base, Obj) and operation(base) in _TURNS else None


def unit_dimension(value: Value | None) -> int | bool | None:
    """The dimension along which samples were brought to length one; False where they surely were not, None where it is not known.

    A layer or an activation right before the product is sure not to be a normalisation.
    """
    for _ in range(20):
        base = settle(value) if value is not None else None
        if isinstance(base, Seq) and base.items:
            value = base.items[0]
            continue
        if not isinstance(base, Obj):
            return None
        name = operation(base)
        if name == "normalize":
            given = option(base, 1, "dim")
            dim = 1 if given is None else plain(given)
            return dim if isinstance(dim, int) and not isinstance(dim, bool) else None
        if name in ("cat", "concat"):
            value = base.argument(0, "tensors")
        elif name in _COPIES or name == "detach":
            value = operand(base)
        elif name == "[]" and isinstance(base.receiver, Obj) and module_of(base.receiver) is None:
            value = base.receiver
        else:
            return False if name in _UNSCALED or str(name).startswith("model:torchvision.models.") else None
    return None


def one(first: Value, second: Value) -> bool:
    """Whether two sides are one tensor."""
    a, b = settle(first), settle(second)
    return a is b and isinstance(a, Obj)
