"""The variables as they were when they were last looked at, in lists: what each step asks of all of them costs little.

Every answer is about the tensors that are there now; they are held weakly, and none is kept beyond an answer.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from itertools import repeat
from operator import attrgetter, is_
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .variables import Variable

Held = list[tuple["Variable", Any]]
_look = attrgetter("dtype", "shape", "device")
_leaf, _gradient, _trainable = attrgetter("is_leaf"), attrgetter("grad"), attrgetter("requires_grad")


class Lot(NamedTuple):
    """What an optimizer holds now, in the order of the variables' numbers."""

    variables: list[Variable]
    idents: list[int]
    """Their numbers; while the optimizer holds the same the list is the same one, and nobody changes it."""
    tensors: list[Any]
    """The tensor of each."""
    parameters: bool
    """Whether all of them are parameters."""
    trained: bool
    """Whether all of them were trained when the rows were written."""
    owner: int
    """The optimizer that their rows name, where all name the same one; else -1."""

    def pairs(self) -> Held:
        """Each variable with its tensor."""
        return list(zip(self.variables, self.tensors, strict=True))


class _Owned(NamedTuple):
    """What an optimizer held when it was asked for."""

    refs: list[weakref.ref[Any]]
    """Its tensors, in its own order."""
    places: list[int] | None
    """Where in that order each of the variables stands; None where both orders are the same."""
    lot: Lot
    """Their variables, without a tensor."""

    def among(self, tensors: list[Any]) -> bool:
        """Whether it is these tensors, and not others at their addresses, in its own order."""
        return len(self.refs) == len(tensors) and all(map(is_, [ref() for ref in self.refs], tensors))


class Roster:
    """The variables of one look at roots and optimizers."""

    def __init__(self, variables: Iterable[Variable] = ()) -> None:
        """Take the variables whose rows are written; which tensor each stands for does not change until the next look."""
        self._refs: list[weakref.ref[Any]] = []
        self._flags: list[bool] = []  # whether each of them was trained
        self._looks: list[tuple[Any, Any, Any] | None] = []  # of each of them; None where the tensor was gone
        self._trained: list[weakref.ref[Any]] = []
        self._owners: list[int] = []  # of each of these the optimizer
        for one in variables:
            if one.tensor is not None and one.row is not None:
                tensor = one.tensor()
                self._refs.append(one.tensor)
                self._flags.append(one.row[8])
                self._looks.append(None if tensor is None else _look(tensor))
                if one.optimizer >= 0:
                    self._trained.append(one.tensor)
                    self._owners.append(one.optimizer)
        self._owned: dict[int, _Owned] = {}

    def flags_changed(self) -> bool:
        """Whether a parameter was frozen or freed since the rows were written."""
        there, flags = [ref() for ref in self._refs], self._flags
        if any(map(is_, there, repeat(None))):
            flags = [flag for flag, tensor in zip(flags, there, strict=True) if tensor is not None]
            there = [tensor for tensor in there if tensor is not None]
        return [*map(_trainable, there)] != flags

    def looks_changed(self) -> bool:
        """Whether a variable has another dtype, shape or device than in its row."""
        there = [ref() for ref in self._refs]
        looks = self._looks
        if any(map(is_, there, repeat(None))):
            looks = [look for look, tensor in zip(looks, there, strict=True) if tensor is not None]
            there = [tensor for tensor in there if tensor is not None]
        return [*map(_look, there)] != looks

    def with_gradients(self) -> dict[int, int]:
        """How many variables of each optimizer have a gradient, for those optimizers of which one has."""
        found: dict[int, int] = {}
        there = [ref() for ref in self._trained]
        # Nearly always all are there, and none has a gradient: that is asked without a loop of the interpreter's.
        whole = not any(map(is_, there, repeat(None))) and all(map(_leaf, there))
        if whole and all(map(is_, map(_gradient, there), repeat(None))):
            return found
        for tensor, optimizer in zip(there, self._owners, strict=True):
            if tensor is not None and tensor.is_leaf and tensor.grad is not None:
                found[optimizer] = found.get(optimizer, 0) + 1
        return found

    def owned(self, index: int, tensors: list[Any], known: dict[int, Variable]) -> Lot:
        """The variables that stand for tensors of an optimizer, each with its tensor, in the order of their numbers.

        Args:
            index: The number of the optimizer.
            tensors: What it holds now.
            known: Variables by the identity of their tensor.
        """
        before = self._owned.get(index)
        if before is None or not before.among(tensors):
            return self._look(index, tensors, known)
        chosen = tensors if before.places is None else [*map(tensors.__getitem__, before.places)]
        return before.lot._replace(tensors=chosen)

    def owner(self, tensors: list[Any]) -> int:
        """The optimizer of all of these tensors, where they are what it holds, in its own order; else -1."""
        return next((one.lot.owner for one in self._owned.values() if one.among(tensors)), -1)

    def _look(self, index: int, tensors: list[Any], known: dict[int, Variable]) -> Lot:
        found: dict[int, tuple[Variable, int]] = {}
        refs = []
        for place, tensor in enumerate(tensors):
            variable = known.get(id(tensor))
            if variable is not None and variable.tensor is not None and variable.tensor() is tensor:
                found[variable.ident] = (variable, place)
                refs.append(variable.tensor)
        idents = sorted(found)
        held = [found[ident][0] for ident in idents]
        places = [found[ident][1] for ident in idents]
        owners = {one.optimizer for one in held}
        lot = Lot(
            held,
            idents,
            [],
            all(one.kind == "parameter" for one in held),
            all(one.row is not None and one.row[8] for one in held),
            owners.pop() if len(owners) == 1 else -1,
        )
        if len(held) == len(tensors):
            self._owned[index] = _Owned(refs, None if places == [*range(len(places))] else places, lot)
        return lot._replace(tensors=[tensors[place] for place in places])
