"""Metrics: what is added up over the batches, what it is divided by, and which way it should go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from preflight.check.queries.counts import operands
from preflight.source.trace import Carry, parents_of
from preflight.source.values import Known, Obj, Phi, Unknown, Value, options_of, settle

if TYPE_CHECKING:
    from preflight.check.context import Context

_NUMBERS = frozenset(
    {".item", ".cpu", ".detach", ".numpy", ".float", ".double", ".long", ".int", ".to", ".data", ".type", ".tolist"}
)
_CASTS = frozenset({"builtins.float", "builtins.int", "builtins.round", "numpy.asarray", "numpy.float64"})
_LOSS = frozenset({"torch.nn.functional." + n for n in (
    "cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "kl_div",
)})  # fmt: skip


def bare(value: Value | None, depth: int = 0) -> Value | None:
    """A value without ``.item()``, ``float()`` and the like around it."""
    base = settle(value) if value is not None else None
    if isinstance(base, Obj) and depth < 10:
        if base.kind in ("call", "attr") and base.name in _NUMBERS and base.receiver is not None:
            return bare(base.receiver, depth + 1)
        if base.kind == "call" and base.name in _CASTS and base.args:
            return bare(base.args[0], depth + 1)
    return base


def is_match(value: Value | None) -> bool:
    """Whether a value compares a network's answer with a target, element by element."""
    base = bare(value)
    if not isinstance(base, Obj):
        return False
    sides = base.args if base.kind == "op" else [*([base.receiver] if base.receiver is not None else []), *base.args]
    if base.name not in ("==", ".eq", "torch.eq") or len(sides) < 2:
        return False
    return any(_answer(side) for side in sides) and not any(isinstance(settle(side), Known) for side in sides)


def _answer(value: Value, depth: int = 0) -> bool:
    """Whether a value is the class that a network names: an argmax, a maximum's index, a top-k, a rounding."""
    base = bare(value)
    if not isinstance(base, Obj) or depth > 6:
        return False
    if base.name in (
        ".argmax",
        "torch.argmax",
        ".topk",
        "torch.topk",
        ".round",
        "torch.round",
        ".max",
        "torch.max",
        ">",
        ">=",
    ):
        return True
    if base.kind == "item" or base.name in (
        ".t",
        ".squeeze",
        ".view",
        ".view_as",
        ".reshape",
        ".flatten",
        ".unsqueeze",
    ):
        return base.receiver is not None and _answer(base.receiver, depth + 1)
    return False


def counted(value: Value | None) -> Obj | None:
    """The sum of matches that a value is: the number of right answers of a batch."""
    base = bare(value)
    if isinstance(base, Obj) and base.name in (".sum", "torch.sum"):
        inner = base.receiver if base.name == ".sum" else base.args[0] if base.args else None
        return base if is_match(inner) else None
    return None


def averaged_match(value: Value | None) -> Obj | None:
    """The mean of matches that a value is: the accuracy of a batch."""
    base = bare(value)
    if isinstance(base, Obj) and base.name in (".mean", "torch.mean"):
        inner = base.receiver if base.name == ".mean" else base.args[0] if base.args else None
        return base if is_match(inner) else None
    return None


def batch_mean(context: Context, value: Value | None) -> Obj | None:
    """The loss of a batch, averaged over its items, that a value is."""
    base = bare(value)
    if not isinstance(base, Obj):
        return None
    if base.name in _LOSS:
        return base if _mean(base) else None
    if base.name == "()" and base.receiver is not None:
        criterion = settle(base.receiver)
        if isinstance(criterion, Obj) and criterion.cls is None and criterion.name.startswith("torch.nn."):
            return base if context.roles.of(criterion) == "criterion" and _mean(criterion) else None
    return None


def is_loss(context: Context, value: Value | None) -> bool:
    """Whether a value is what a function or a criterion of PyTorch computes as a loss."""
    base = bare(value)
    if not isinstance(base, Obj):
        return False
    if base.name in _LOSS:
        return True
    return base.name == "()" and context.roles.of(base.receiver) == "criterion"


def _mean(made: Obj) -> bool:
    """Whether a loss averages over the batch: by default it does."""
    if made.open_args or {"size_average", "reduce"} & made.kwargs.keys():
        return False
    given = made.kwargs.get("reduction")
    worth = settle(given) if given is not None else Known("mean")
    return isinstance(worth, Known) and worth.value == "mean" and not made.name.endswith("kl_div")


def added(context: Context, value: Value | None) -> tuple[Value, Carry | None] | None:
    """What a loop adds to a sum in each pass, and the loop's carry; None where the value is no such sum."""
    base = bare(value)
    parts = operands(base) if base is not None else None
    if parts is None or parts[0] != "+":
        return None
    for one, other in ((parts[1], parts[2]), (parts[2], parts[1])):
        mark = settle(one) if not isinstance(one, Phi) else one
        carry = next((c for c in context.trace.carried if c.mark is mark or c.mark is one), None)
        if carry is not None:
            return other, carry
    return None


def scaled(value: Value | None) -> tuple[Value | None, float]:
    """A value without the constant that it is multiplied by: ``100.0 * x``."""
    base = bare(value)
    parts = operands(base) if base is not None else None
    if parts is not None and parts[0] == "*":
        for one, other in ((parts[1], parts[2]), (parts[2], parts[1])):
            number = settle(one)
            if isinstance(number, Known) and isinstance(number.value, (int, float)):
                inner, factor = scaled(other)
                return inner, factor * float(number.value)
    return base, 1.0


def rises_with_matches(value: Value | None, depth: int = 0) -> bool:
    """Whether a number grows with the number of right answers, through sums, quotients and positive constants."""
    if value is None or depth > 12:
        return False
    for option in options_of(value, limit=3):
        base = bare(option)
        if base is None:
            continue
        if counted(base) is not None or averaged_match(base) is not None:
            return True
        parts = operands(base)
        if parts is None:
            if isinstance(base, Obj) and base.name in ("numpy.mean", "builtins.round") and base.args:
                return rises_with_matches(base.args[0], depth + 1)
            continue
        sign, left, right = parts
        if sign in ("/", "//"):
            return rises_with_matches(left, depth + 1)
        if sign == "*":
            return _positive(left, right, depth) or _positive(right, left, depth)
        if sign == "+":
            return rises_with_matches(left, depth + 1) or rises_with_matches(right, depth + 1)
    return False


def _positive(constant: Value, other: Value, depth: int) -> bool:
    number = settle(constant)
    positive = isinstance(number, Known) and isinstance(number.value, (int, float)) and number.value > 0
    return positive and rises_with_matches(other, depth + 1)


def quotients(context: Context) -> Iterator[tuple[Value, Value, Value]]:
    """All divisions whose results reach a call, a return or an assignment: quotient, numerator, denominator."""
    seen: set[int] = set()
    for event in context.trace.events:
        stack: list[Value] = [*event.args, *event.kwargs.values()]
        if event.result is not None:
            stack.append(event.result)
        while stack and len(seen) < 60_000:
            value = stack.pop()
            if id(value) in seen:
                continue
            seen.add(id(value))
            if isinstance(value, (Obj, Unknown)):
                parts = operands(value)
                if parts is not None and parts[0] == "/":
                    yield value, parts[1], parts[2]
            stack.extend(parents_of(value))
