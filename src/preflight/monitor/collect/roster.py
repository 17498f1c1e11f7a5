"""The variables as they were when they were last looked at, in lists: what each step asks of all of them costs little.

Every answer is about the tensors that are there now; they are held weakly, and none is kept beyond an answer.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .variables import Variable

Held = list[tuple["Variable", Any]]


class _Owned(NamedTuple):
    """What an optimizer held when it was asked for."""

    refs: list[weakref.ref[Any]]
    """Its tensors, in its own order."""
    places: list[int]
    """Where in that order each of the variables stands."""
    variables: list[Variable]
    """Those of the tensors, in the order of their numbers."""


class Roster:
    """The variables of one look at roots and optimizers."""

    def __init__(self, variables: Iterable[Variable] = ()) -> None:
        """Take the variables whose rows are written; which tensor each stands for does not change until the next look."""
        self._flags: list[tuple[weakref.ref[Any], bool]] = []
        self._trained: list[tuple[weakref.ref[Any], int]] = []
        for one in variables:
            if one.tensor is not None and one.row is not None:
                self._flags.append((one.tensor, one.row[8]))
                if one.optimizer >= 0:
                    self._trained.append((one.tensor, one.optimizer))
        self._owned: dict[int, _Owned] = {}

    def flags_changed(self) -> bool:
        """Whether a parameter was frozen or freed since the rows were written."""
        for ref, flag in self._flags:
            tensor = ref()
            if tensor is not None and tensor.requires_grad is not flag:
                return True
        return False

    def with_gradients(self) -> dict[int, int]:
        """How many variables of each optimizer have a gradient, for those optimizers of which one has."""
        found: dict[int, int] = {}
        for ref, optimizer in self._trained:
            tensor = ref()
            if tensor is not None and tensor.is_leaf and tensor.grad is not None:
                found[optimizer] = found.get(optimizer, 0) + 1
        return found

    def owned(self, index: int, tensors: list[Any], known: dict[int, Variable]) -> Held:
        """The variables that stand for tensors of an optimizer, each with its tensor, in the order of their numbers.

        Args:
            index: The number of the optimizer.
            tensors: What it holds now.
            known: Variables by the identity of their tensor.
        """
        before = self._owned.get(index)
        # The last answer holds where the same tensors, and not others at their addresses, stand in the same order.
        if before is None or len(before.refs) != len(tensors):
            return self._look(index, tensors, known)
        if not all(map(is_, [ref() for ref in before.refs], tensors)):
            return self._look(index, tensors, known)
        return list(zip(before.variables, map(tensors.__getitem__, before.places), strict=True))

    def _look(self, index: int, tensors: list[Any], known: dict[int, Variable]) -> Held:
        found: dict[int, tuple[Variable, int]] = {}
        refs = []
        for place, tensor in enumerate(tensors):
            variable = known.get(id(tensor))
            if variable is not None and variable.tensor is not None and variable.tensor() is tensor:
                found[variable.ident] = (variable, place)
                refs.append(variable.tensor)
        ordered = [found[ident] for ident in sorted(found)]
        if len(ordered) == len(tensors):
            self._owned[index] = _Owned(refs, [place for _, place in ordered], [one for one, _ in ordered])
        return [(variable, tensors[place]) for variable, place in ordered]
