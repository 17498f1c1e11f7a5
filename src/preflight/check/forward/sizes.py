"""Whole numbers in a forward pass: written in the script, or taken from the shape of a tensor."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING

from preflight.source.values import Known, Obj, Seq, Value, plain, settle

if TYPE_CHECKING:
    from preflight.check.forward.follow import Forward

_ARITHMETIC: dict[str, Callable[[float, float], float | None]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b if b else None,
    "/": lambda a, b: a / b if b else None,
    "%": lambda a, b: a % b if b else None,
}


def size_of(forward: Forward, value: Value | None) -> int | None:
    """Return a whole number, or None where it is not known."""
    found = _number(forward, value, 0)
    return int(found) if found is not None and found == int(found) else None


def _number(forward: Forward, value: Value | None, depth: int) -> float | None:
    if value is None or depth > 30:
        return None
    value = settle(value)
    if isinstance(value, Known):
        return value.value if isinstance(value.value, (int, float)) and math.isfinite(value.value) else None
    if not isinstance(value, Obj):
        return None
    if value.kind == "op" and len(value.args) == 2 and value.name in _ARITHMETIC:
        one, two = (_number(forward, arg, depth + 1) for arg in value.args)
        return _ARITHMETIC[value.name](one, two) if one is not None and two is not None else None
    if value.kind == "item" and value.receiver is not None and value.args:
        sizes = shape_value(forward, value.receiver)
        at = plain(value.args[0])
        return sizes[at] if sizes is not None and isinstance(at, int) and -len(sizes) <= at < len(sizes) else None
    if value.name == ".size" and value.receiver is not None and (value.args or value.kwargs):
        held, at = forward.tensor(value.receiver), plain(value.argument(0, "dim"))
        if held is None or not isinstance(at, int) or not -len(held.shape) <= at < len(held.shape):
            return None
        return held.shape[at]
    if value.name in ("len", "builtins.len", ".__len__") and value.args:
        held = forward.tensor(value.args[0])
        return held.shape[0] if held is not None and held.shape else None
    if value.name in ("int", "builtins.int") and value.args:
        found = _number(forward, value.args[0], depth + 1)
        return int(found) if found is not None else None
    if value.name in (".dim", ".ndimension") and value.receiver is not None:
        held = forward.tensor(value.receiver)
        return len(held.shape) if held is not None else None
    if value.name == ".numel" and value.receiver is not None:
        held = forward.tensor(value.receiver)
        return held.elements if held is not None else None
    return None


_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def truth_of(forward: Forward, test: Value | None) -> bool | None:
    """Return what a test of sizes comes to, or None where it is not one or not all is known."""
    found = settle(test) if test is not None else None
    if not isinstance(found, Obj) or found.kind != "op":
        return None
    if found.name == "not" and len(found.args) == 1:
        inner = truth_of(forward, found.args[0])
        return None if inner is None else not inner
    compared = _COMPARISONS.get(found.name)
    sizes = [size_of(forward, arg) for arg in found.args]
    if compared is None or len(sizes) != 2 or sizes[0] is None or sizes[1] is None:
        return None
    return compared(sizes[0], sizes[1])


def shape_value(forward: Forward, value: Value) -> tuple[int, ...] | None:
    """Return the sizes that ``x.shape`` or ``x.size()`` stands for, also a part of them."""
    value = settle(value)
    if isinstance(value, Obj) and value.name in _SEQUENCES and len(value.args) == 1:
        return shape_value(forward, value.args[0])
    if isinstance(value, Obj) and value.kind == "op" and value.name == "+" and len(value.args) == 2:
        parts = [_sizes_of(forward, arg) for arg in value.args]
        return tuple(size for part in parts if part is not None for size in part) if None not in parts else None
    if not isinstance(value, Obj) or value.receiver is None:
        return None
    whole = (value.kind == "attr" and value.name == "shape") or (
        value.name == ".size" and not value.args and not value.kwargs
    )
    if whole:
        held = forward.tensor(value.receiver)
        return held.shape if held is not None else None
    cut = settle(value.args[0]) if value.kind == "item" and value.args else None
    if isinstance(cut, Obj) and cut.name == "slice":
        sizes = shape_value(forward, value.receiver)
        first, last, step = (plain(arg) if arg is not None else None for arg in (*cut.args, None, None, None)[:3])
        if sizes is not None and all(part is None or isinstance(part, int) for part in (first, last, step)):
            return sizes[slice(first, last, step)]
    return None


_SEQUENCES = ("torch.Size", "builtins.tuple", "builtins.list")


def _sizes_of(forward: Forward, value: Value) -> tuple[int, ...] | None:
    """Sizes that stand in a sum of sequences: those of a tensor, or written out."""
    found = settle(value)
    if not isinstance(found, Seq):
        return shape_value(forward, found)
    numbers = [size_of(forward, item) for item in found.items]
    return tuple(n for n in numbers if n is not None) if not found.open and None not in numbers else None


def numbers_of(forward: Forward, values: list[Value]) -> list[int] | None:
    """Return whole numbers that are given one by one or as one sequence, or None where one is not known."""
    if len(values) == 1:
        only = settle(values[0])
        sizes = shape_value(forward, only)
        if sizes is not None:
            return list(sizes)
        if isinstance(only, Seq):
            if only.open:
                return None
            values = list(only.items)
    found: list[int] = []
    for value in values:
        number = size_of(forward, value)
        if number is None:
            return None
        found.append(number)
    return found
