"""What a loss is added up from: its terms, each with its sign and the constant it is multiplied by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from preflight.check.queries.tensors import VIEWS, operand, operation, second, training_losses
from preflight.source.values import Choice, Known, Obj, Phi, Seq, Value, plain, settle

if TYPE_CHECKING:
    from preflight.check.context import Context

# A sum or a mean over elements or over a list keeps the sign of what it adds up.
_GATHERING = frozenset({"mean", "sum", "stack", "cat", "concat", "nanmean"})
_ADD, _SUBTRACT, _NEGATE = frozenset({"+", "add"}), frozenset({"-", "sub"}), frozenset({"neg", "negative"})
_MULTIPLY, _DIVIDE = frozenset({"*", "mul"}), frozenset({"/", "div"})
_MAX_TERMS = 200


class Term(NamedTuple):
    """One summand of a loss.

    Attributes:
        value: What is added.
        factor: The constant it is multiplied by; its sign is the sign with which it enters the loss.
        scale: The number of means and sums that lie around it: terms of one sum share it.
    """

    value: Value
    factor: float
    scale: tuple[int, ...]


def terms(value: Value) -> list[Term]:
    """The summands of a value, seen through sums, means, rearrangements and products with known numbers."""
    return list(_walk(value, 1.0, (), set()))[:_MAX_TERMS]


def loss_terms(context: Context) -> list[list[Term]]:
    """The terms of each training loss; none at all where an optimizer climbs instead of descending."""
    held = context.__dict__.get("_loss_terms")
    if held is None:
        held = [] if _climbs(context) else [terms(loss) for loss in training_losses(context)]
        context.__dict__["_loss_terms"] = held
    found: list[list[Term]] = held
    return found


def _climbs(context: Context) -> bool:
    """Whether an optimizer of the script may maximise."""
    return any(
        (given := made.kwargs.get("maximize")) is not None and plain(given) is not False
        for made in context.reading.made("optimizer")
    )


def _walk(value: Value | None, factor: float, scale: tuple[int, ...], above: set[int]) -> Iterator[Term]:
    value = settle(value) if value is not None else None
    if value is None or id(value) in above or len(above) > 60:
        return
    above = above | {id(value)}
    if isinstance(value, Choice):
        if value.preferred is None:
            yield Term(value, factor, scale)
        else:
            yield from _walk(value.options[value.preferred], factor, scale, above)
        return
    if isinstance(value, Phi):
        yield from _walk(value.initial, factor, scale, above)
        if value.final is not None:
            yield from _walk(value.final, factor, scale, above)
        return
    if isinstance(value, Seq):
        for item in value.items:
            yield from _walk(item, factor, scale, above)
        return
    parts = list(_parts(value)) if isinstance(value, Obj) else []
    if not parts:
        yield Term(value, factor, scale)
        return
    name = operation(value)
    inner = (*scale, id(value)) if name in _GATHERING else scale
    for part, times in parts:
        yield from _walk(part, factor * times, inner, above)


def _parts(value: Obj) -> Iterator[tuple[Value, float]]:
    """What a value is the sum of, each with its factor; nothing where it is a term of its own."""
    name = operation(value) or ("sum" if value.name == "builtins.sum" else None)
    if name in VIEWS or name in _GATHERING:
        inner = value.args[0] if value.name == "builtins.sum" and value.args else operand(value)
        if inner is not None:
            yield inner, 1.0
        return
    if name in _NEGATE:
        inner = operand(value)
        if inner is not None:
            yield inner, -1.0
        return
    pair = operands(value)
    if pair is None:
        return
    left, right = pair
    if name in _ADD or name in _SUBTRACT:
        yield left, 1.0
        yield right, -1.0 if name in _SUBTRACT else 1.0
    elif name in _MULTIPLY or name in _DIVIDE:
        yield from _scaled(left, right, name in _DIVIDE)


def _scaled(left: Value, right: Value, divided: bool) -> Iterator[tuple[Value, float]]:
    first, second = number(left), number(right)
    if second is not None and (second != 0 or not divided):
        yield left, 1.0 / second if divided else second
    elif first is not None and not divided:
        yield right, first


def operands(value: Obj) -> tuple[Value, Value] | None:
    """The two operands of an operator, a method or a function of two tensors."""
    if value.kind not in ("op", "call"):
        return None
    first, other = operand(value), second(value)
    return (first, other) if first is not None and other is not None else None


def factors(value: Value | None) -> list[Value]:
    """What a product is made of, seen through rearrangements and signs; the value itself where it is no product."""
    found: list[Value] = []
    stack = [value] if value is not None else []
    while stack and len(found) < 20:
        base = settle(stack.pop())
        name = operation(base)
        if isinstance(base, Obj) and (name in VIEWS or name in _NEGATE):
            inner = operand(base)
            stack += [inner] if inner is not None else []
        elif isinstance(base, Obj) and name in _MULTIPLY and (pair := operands(base)) is not None:
            stack += pair
        else:
            found.append(base)
    return found


def number(value: Value | None) -> float | None:
    """A number that the defaults lead to, or None."""
    if value is None or not isinstance(settle(value), Known):
        return None
    found = plain(value)
    return float(found) if isinstance(found, (int, float)) and not isinstance(found, bool) else None
