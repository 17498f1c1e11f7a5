"""Arithmetic that takes numbers and arrays alike.

Every formula of this room is written once. A check calls it with numbers; a planner calls it with columns of a million
layouts. What Python decides with ``max``, ``min`` or ``if`` on a number stands here, so that it can be decided for every
element of a column. Annotations say ``float``: a NumPy array of floats is welcome in its place, and NumPy is imported
only when one comes.
"""

from __future__ import annotations

import math
from typing import Any

_PLAIN = (int, float)


def larger(first: float, *others: float) -> float:
    """Return the largest, element by element."""
    result: Any = first
    for other in others:
        if isinstance(result, _PLAIN) and isinstance(other, _PLAIN):
            result = other if other > result else result
        else:
            import numpy

            result = numpy.maximum(result, other)
    return result  # type: ignore[no-any-return]


def smaller(first: float, *others: float) -> float:
    """Return the smallest, element by element."""
    result: Any = first
    for other in others:
        if isinstance(result, _PLAIN) and isinstance(other, _PLAIN):
            result = other if other < result else result
        else:
            import numpy

            result = numpy.minimum(result, other)
    return result  # type: ignore[no-any-return]


def where(condition: Any, then: float, otherwise: float) -> float:
    """Return ``then`` where the condition holds, else ``otherwise``, element by element."""
    if condition is True or condition is False:
        return then if condition else otherwise
    import numpy

    result: Any = numpy.where(condition, then, otherwise)
    return result  # type: ignore[no-any-return]


def ceiling(value: Any) -> float:
    """Return the least whole number that is not below, element by element."""
    if isinstance(value, _PLAIN):
        return float(math.ceil(value))
    import numpy

    return numpy.ceil(value)  # type: ignore[no-any-return]


def floor(value: Any) -> float:
    """Return the greatest whole number that is not above, element by element."""
    if isinstance(value, _PLAIN):
        return float(math.floor(value))
    import numpy

    return numpy.floor(value)  # type: ignore[no-any-return]


def root(value: Any) -> float:
    """Return the square root, element by element."""
    if isinstance(value, _PLAIN):
        return math.sqrt(value)
    import numpy

    return numpy.sqrt(value)  # type: ignore[no-any-return]


def logarithm2(value: Any) -> float:
    """Return the logarithm to base 2, element by element."""
    if isinstance(value, _PLAIN):
        return math.log2(value)
    import numpy

    return numpy.log2(value)  # type: ignore[no-any-return]


def anywhere(condition: Any) -> bool:
    """Return whether the condition holds for at least one element."""
    return bool(condition) if condition is True or condition is False else bool(condition.any())
