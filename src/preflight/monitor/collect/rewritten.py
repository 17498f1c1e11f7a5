"""Whether the gradients that a step takes are those that the last backward pass left, or others that the program put there.

Programs that compute gradients by parts (one sample or one task after the other) clear them in between, and put what they
made of them into ``.grad`` before the step. One parameter of each optimizer tells.
"""

from __future__ import annotations

import weakref
from typing import Any

from .variables import Variables

_MOST = 16
"""Optimizers that are looked at; programs with more have one for each parameter."""


class Rewritten:
    """The gradient that the last backward pass left in one parameter of each optimizer."""

    def __init__(self, variables: Variables) -> None:
        self._variables = variables
        self._left: dict[int, tuple[weakref.ref[Any], weakref.ref[Any], int]] = {}

    def passed(self) -> None:
        """Note the gradients that a backward pass left."""
        for index, optimizer in self._variables.optimizers()[:_MOST]:
            known = self._left.pop(index, None)
            parameter = known[0]() if known is not None else None
            if parameter is None or parameter.grad is None:
                parameter = next(_with_gradient(optimizer), None)
            if parameter is not None:
                left = parameter.grad
                self._left[index] = weakref.ref(parameter), weakref.ref(left), _writes(left)

    def replaced(self, index: int) -> bool:
        """Whether another tensor stands in the place of the gradient that the last pass left to an optimizer."""
        known = self._left.get(index)
        if known is None:
            return False
        parameter = known[0]()
        return parameter is not None and parameter.grad is not None and parameter.grad is not known[1]()

    def written(self) -> bool:
        """Whether the program has written to a gradient that the last pass left, or put another one in its place."""
        left = [(index, known[1](), known[2]) for index, known in self._left.items()]
        return any(
            self.replaced(index) or (gradient is not None and _writes(gradient) != writes)
            for index, gradient, writes in left
        )


def _writes(gradient: Any) -> int:
    """How often a gradient was written to; -1 where that is not counted."""
    return -1 if gradient.is_inference() else int(gradient._version)


def _with_gradient(optimizer: Any) -> Any:
    """The parameters of an optimizer that have a gradient."""
    return (one for group in optimizer.param_groups for one in group["params"] if one.grad is not None)
