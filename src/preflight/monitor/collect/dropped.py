"""Products by which a layer drops: they leave no name in a graph on a processor, only the mask that they keep."""

from __future__ import annotations

import sys
from typing import Any

from .plain import Outside, impossible, simple
from .unpacking import runs_a_hook

_LEAST_NUMBERS = 32
_MOST_NUMBERS = 1 << 20
_DEVIATIONS = 3
"""How many standard deviations the share of zeros may lie from the rate that the other number tells."""


def drops(node: Any) -> bool:
    """Whether a product is that of dropout: one factor needs no gradient and is a mask that was scaled by its own rate.

    Dropout at a rate of p multiplies with a mask of zeros, a share of p, and of 1 / (1 - p). A mask of the program has
    ones, or zeros in another share than the number beside them says.

    Args:
        node: An operation named ``Mul``.
    """
    mask = _mask(node)
    torch = sys.modules["torch"]
    if mask is None or impossible(torch):
        return False
    with Outside(torch):
        count = mask.numel()
        most = float(mask.amax())
        zeros = int((mask == 0).sum())
        if not most > 1 or not zeros or zeros + int((mask == most).sum()) != count:
            return False
    rate = 1 - 1 / most
    allowed = _DEVIATIONS * (rate * (1 - rate) / count) ** 0.5
    return bool(abs(zeros / count - rate) <= allowed)


def constant(node: Any) -> Any:
    """The factor of a product that needs no gradient, where it can be read without running anything; None otherwise."""
    below = [one for one, _ in node.next_functions]
    if len(below) != 2 or (below[0] is None) == (below[1] is None):
        return None
    word = "self" if below[0] is None else "other"
    if runs_a_hook(node, word):
        return None
    try:
        return getattr(node, f"_saved_{word}")
    except (AttributeError, RuntimeError):
        return None


def _mask(node: Any) -> Any:
    """The constant factor of a product, where it lies in memory and may be a mask; None otherwise."""
    held = constant(node)
    if held is None or not simple(held) or held.device.type != "cpu" or not held.is_floating_point():
        return None  # on other devices the operation has a name of its own, and nothing waits for it
    return held if _LEAST_NUMBERS <= held.numel() <= _MOST_NUMBERS else None
