"""Numbers that a program wrote into its loss or its model, by which what is computed is multiplied or divided.

Told are short decimals, as a person writes them, that no size in the graph explains: one over a size, or over its root, is
worked out of the data or of the width, and is another one in another run. A number that came out of tensors is told
apart by its precision: what a person wrote is held as a double.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from .dropped import constant
from .plain import plain_types
from .unpacking import runs_a_hook

_DIGITS = 3
_CLOSE = 1e-6
_MOST_SHAPES = 256


def of(node: Any, name: str, last: bool = False) -> float | None:
    """The number by which an operation multiplies, or divides; None where there is none that a person may have written.

    Nor is one told that may count something: a loss is divided by how many batches are accumulated, and multiplied by how
    many processes there are, which are settings.

    Args:
        node: The operation.
        name: Its name.
        last: Whether its result is the loss itself.
    """
    number = written(node, name, whole=False)
    if number is None or abs(number) in (0.0, 1.0) or float(f"{number:.{_DIGITS}g}") != number:
        return None
    return None if shape_of(node) == () and _counts(number, last) else number


def written(node: Any, name: str, whole: bool = True) -> float | None:
    """The number by which an operation multiplies, or divides, where it is one of Python's and none of a tensor's.

    Args:
        node: The operation.
        name: Its name.
        whole: Whether one that Python holds as a whole number counts, too.
    """
    if name not in ("Mul", "Div"):
        return None
    held = constant(node) if name == "Mul" else _divisor(node)
    torch = sys.modules["torch"]
    usual = type(held) in plain_types(torch) and not held.dim()
    kinds = (torch.float64, torch.int64) if whole else (torch.float64,)
    return float(held) if usual and held.dtype in kinds and held.device.type == "cpu" else None


def _counts(number: float, last: bool) -> bool:
    """Whether a number by which a loss is multiplied or divided may be a count, or one over it where nothing follows."""
    size = abs(number)
    return _whole(size) or (last and _whole(1 / size))


def explained(number: float, shapes: Iterable[tuple[int, ...]]) -> bool:
    """Whether a size in these shapes, several of them, or a part of one explains a number.

    Args:
        number: The number.
        shapes: Shapes of results in the same graph.
    """
    size = abs(number)
    wholes = {round(one) for one in (size, 1 / size, size * size, 1 / size / size) if _whole(one)}
    for shape in list(shapes)[:_MOST_SHAPES] if wholes else ():
        if any(dimension % whole == 0 for dimension in shape for whole in wholes if dimension):
            return True
        products = {one * other for one, other in pairwise(shape)}
        if len(shape) > 2:
            products.add(shape[0] * shape[1] * shape[2])
        if products & wholes:
            return True
    return False


def shape_of(node: Any) -> tuple[int, ...]:
    """The shape of what an operation gives; empty where it is not told.

    Args:
        node: The operation.
    """
    held = getattr(node, "_input_metadata", None)
    try:
        return tuple(int(size) for size in held[0].shape) if held else ()
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return ()


def _divisor(node: Any) -> Any:
    """The constant by which an operation divides, where it can be read without running anything."""
    below = [one for one, _ in node.next_functions]
    if len(below) != 2 or below[0] is None or below[1] is not None or runs_a_hook(node, "other"):
        return None
    try:
        return node._saved_other
    except (AttributeError, RuntimeError):
        return None


def _whole(number: float) -> bool:
    return number > 1.5 and abs(number - round(number)) <= _CLOSE * number
