"""The table of variables: every parameter and buffer of the roots, and what an optimizer holds besides.

A variable is known by its name; the tensor behind it is held weakly and may be replaced.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from itertools import repeat
from operator import is_
from typing import Any

from .digests import dtype_of
from .naming import Names, parts
from .recorder import Recorder
from .roster import Held, Lot, Roster


class Variable:
    """One variable and the tensor that stands behind it now."""

    __slots__ = ("group", "ident", "kind", "module", "name", "optimizer", "part", "row", "tensor")

    def __init__(self, ident: int, name: str, kind: str, module: str) -> None:
        self.ident = ident
        self.name = name
        self.kind = kind
        self.module = module
        self.tensor: weakref.ref[Any] | None = None
        self.optimizer = -1
        self.group = -1
        self.row: tuple[Any, ...] | None = None
        self.part: dict[str, Any] | None = None


class Variables:
    """All variables of the process."""

    def __init__(self, recorder: Recorder, names: Names) -> None:
        self.recorder = recorder
        self.names = names
        self.by_name: dict[str, Variable] = {}
        self._by_tensor: dict[int, Variable] = {}
        self._optimizers: list[weakref.ref[Any]] = []
        self._spread: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()
        self.stale = True
        # Parts of the roots, what these hold, and groups of the optimizers as they were last looked at, so that what is as
        # it was is seen to be without looking at everything again.
        self._looked: list[weakref.ref[Any]] = []
        self._held: list[Callable[[], Any]] = []
        self._gaps = 0  # how many of these stand for nothing
        self._groups: list[list[int]] = []
        self._roster = Roster()

    # -- what there is

    def add_optimizer(self, optimizer: Any) -> int:
        """Number an optimizer."""
        known = self.index_of(optimizer)
        if known >= 0:
            return known
        self._optimizers.append(weakref.ref(optimizer))
        self.stale = True
        return len(self._optimizers) - 1

    def index_of(self, optimizer: Any) -> int:
        """The number of an optimizer, or -1; a wrapper has the number of the optimizer whose groups it shows as its own."""
        for index, held in enumerate(self._optimizers):
            if held() is optimizer:
                return index
        groups = getattr(optimizer, "param_groups", None)
        if not groups:
            return -1
        alive = self.optimizers()
        return next((index for index, known in alive if getattr(known, "param_groups", None) is groups), -1)

    def is_stale(self) -> None:
        """Look at everything again when it is asked for next."""
        self.stale = True

    def lives(self, index: int) -> bool:
        """Whether an optimizer is still there."""
        return self._optimizers[index]() is not None

    def optimizers(self) -> list[tuple[int, Any]]:
        """The optimizers that are alive, with their numbers."""
        known = [(index, held()) for index, held in enumerate(self._optimizers)]
        return [(index, optimizer) for index, optimizer in known if optimizer is not None]

    def replicated(self, module: Any, ranks: list[int], synced: bool) -> None:
        """Note that the parameters and buffers of a module are meant to be the same on these ranks.

        Args:
            module: The module that was wrapped; whatever its parts hold later counts too.
            ranks: The ranks.
            synced: Whether the wrapper sends the buffers that it holds now to all ranks before each forward pass.
        """
        for part in module.modules():
            buffers = [weakref.ref(one) for one in part._buffers.values() if one is not None] if synced else []
            self._spread[part] = {"ranks": ranks, "synced": buffers}
        self.stale = True

    def of(self, tensor: Any) -> Variable | None:
        """The variable of a tensor, or None."""
        known = self._by_tensor.get(id(tensor))
        return known if known is not None and known.tensor is not None and known.tensor() is tensor else None

    def living(self, optimizer: int | None = None) -> Held:
        """Variables with their tensors: all, those of one optimizer, or (for -1) those of none."""
        if optimizer is not None and optimizer >= 0:
            return self.lot(optimizer).pairs()
        found = []
        for variable in self.by_name.values():
            if optimizer is not None and variable.optimizer != optimizer:
                continue
            tensor = variable.tensor() if variable.tensor is not None else None
            if tensor is not None:
                found.append((variable, tensor))
        return found

    def lot(self, index: int) -> Lot:
        """What an optimizer holds now; another one may hold the same."""
        optimizer = self._optimizers[index]() if index < len(self._optimizers) else None
        groups = getattr(optimizer, "param_groups", None) or ()
        tensors = [tensor for group in groups for tensor in group["params"]]
        return self._roster.owned(index, tensors, self._by_tensor)

    def owners(self, tensors: list[Any]) -> dict[int, int]:
        """How many of some tensors the optimizers hold, by the number that the row of each names; -1 for none of them."""
        owner = self._roster.owner(tensors)
        if owner >= 0:
            return {owner: len(tensors)}
        found: dict[int, int] = {}
        for one in tensors:
            variable = self.of(one)
            if variable is not None:
                found[variable.optimizer] = found.get(variable.optimizer, 0) + 1
        return found

    def with_gradients(self) -> dict[int, int]:
        """How many variables of each optimizer have a gradient, for those optimizers of which one has."""
        return self._roster.with_gradients()

    def refresh(self) -> None:
        """Look at roots and optimizers again, and hand over the rows of variables that are new or have changed."""
        self.names.again()
        present: dict[str, None] = {}
        first: dict[int, Variable] = {}
        shared: dict[str, int] = {}
        self._looked, self._held = [], []
        for root, module in self.names.living():
            spread: dict[str, dict[str, Any] | None] = {}
            for name, part in parts(module, root):
                self._looked.append(weakref.ref(part))
                self._held += [_none if one is None else weakref.ref(one) for one in _held_by([part])]
                part_of = self._spread.get(part) if self._spread else None
                around = spread.get(name.rpartition(".")[0])
                spread[name] = part_of or around
                for kind, held in (("parameter", part._parameters), ("buffer", part._buffers)):
                    for word, tensor in list(held.items()):
                        if tensor is None:
                            continue
                        full = f"{name}.{word}"
                        variable = self._take(full, kind, type(part).__name__, tensor)
                        # What was put into a wrapped model afterwards is meant to be trained like the rest of it; its
                        # buffers are sent to nobody.
                        variable.part = part_of or (around if kind == "parameter" else None)
                        present[full] = None
                        if id(tensor) in first:
                            shared[full] = first[id(tensor)].ident
                        else:
                            first[id(tensor)] = variable
        self._by_tensor = dict(first)
        self._place_in_optimizers(present)
        for name in [name for name in self.by_name if name not in present]:
            self.by_name[name].tensor = None
        for name in present:
            self._row(self.by_name[name], shared.get(name, -1))
        self._gaps = self._held.count(_none)
        self._groups = self._groups_now()
        self._roster = Roster(self.by_name.values())
        self.stale = self.names.changed = False

    def _take(self, name: str, kind: str, module: str, tensor: Any) -> Variable:
        variable = self.by_name.get(name)
        if variable is None:
            variable = self.by_name[name] = Variable(len(self.by_name), name, kind, module)
        if variable.tensor is None or variable.tensor() is not tensor:
            variable.tensor = weakref.ref(tensor)
        return variable

    def _place_in_optimizers(self, present: dict[str, None]) -> None:
        for variable in self.by_name.values():
            variable.optimizer = variable.group = -1
        for index, known in enumerate(self._optimizers):
            optimizer = known()
            for group, settings in enumerate(getattr(optimizer, "param_groups", None) or ()):
                for position, tensor in enumerate(settings["params"]):
                    known_variable = self._by_tensor.get(id(tensor))
                    if known_variable is None:
                        name = f"optimizer{index}.group{group}.{position}"
                        variable = self._take(name, "parameter", "", tensor)
                        self._by_tensor[id(tensor)] = known_variable = variable
                        present[name] = None
                    variable = known_variable
                    if variable.optimizer < 0:
                        variable.optimizer, variable.group = index, group

    def _row(self, variable: Variable, shared: int) -> None:
        tensor = variable.tensor() if variable.tensor is not None else None
        if tensor is None:
            return
        recorder = self.recorder
        row = (
            variable.ident,
            variable.name,
            variable.kind,
            variable.name.split(".")[0],
            variable.module,
            dtype_of(tensor),
            list(tensor.shape),
            str(tensor.device),
            bool(tensor.requires_grad),
            tensor.numel(),
            variable.optimizer,
            variable.group,
            shared,
            _spread_of(variable, tensor),
        )
        if row != variable.row:
            variable.row = row
            recorder.put("variable", (recorder.number(), recorder.iteration, *row))

    def changed(self) -> bool:
        """Whether roots, optimizers or their variables are others than when the rows were written, or look different.

        Flags are not looked at: see ``flags_changed``.
        """
        if self.stale or self.names.changed:
            return True
        looked = [known() for known in self._looked]
        if any(map(is_, looked, repeat(None))):
            return True
        held, before = _held_by(looked), [known() for known in self._held]
        if len(held) != len(before) or not all(map(is_, held, before)):
            return True
        if sum(map(is_, before, repeat(None))) != self._gaps:
            return True  # something is gone, and there is nothing in its place
        return self._groups != self._groups_now() or self._roster.looks_changed()

    def _groups_now(self) -> list[list[int]]:
        return [
            [*map(id, group["params"])]
            for _, optimizer in self.optimizers()
            for group in getattr(optimizer, "param_groups", None) or ()
        ]

    def flags_changed(self) -> bool:
        """Whether a parameter was frozen or freed since the rows were written."""
        return self._roster.flags_changed()


def _held_by(looked: list[Any]) -> list[Any]:
    """What some modules hold themselves, one after the other: their parts, parameters and buffers."""
    held: list[Any] = []
    for part in looked:
        for own in (part._modules, part._parameters, part._buffers):
            if own:
                held += own.values()
    return held


def _none() -> None:
    """Stand for a part, parameter or buffer that is not there."""


def _spread_of(variable: Variable, tensor: Any) -> dict[str, Any] | None:
    """On which ranks a variable is meant to be the same, when its placement or a wrapper says so."""
    placements = getattr(tensor, "placements", None)
    if placements is not None and hasattr(tensor, "device_mesh"):
        return _of_mesh(tensor)
    if variable.part is None:
        return None
    spread = {"kind": "replicated", "ranks": variable.part["ranks"]}
    if variable.kind == "buffer":
        spread["synced"] = any(known() is tensor for known in variable.part["synced"])
    return spread


def _of_mesh(tensor: Any) -> dict[str, Any]:
    """How a distributed tensor lies over its mesh: with which ranks this one holds the same part."""
    mesh = tensor.device_mesh
    ranks = mesh.mesh
    # What is cut into one part is whole.
    sharded = [dim for dim, one in enumerate(tensor.placements) if not one.is_replicate() and ranks.size(dim) > 1]
    coordinate = mesh.get_coordinate()
    if coordinate is not None:
        for dim in range(ranks.ndim - 1, -1, -1):
            if dim in sharded:
                ranks = ranks.select(dim, coordinate[dim])
    same = sorted(int(rank) for rank in ranks.reshape(-1).tolist())
    partial = any(placement.is_partial() for placement in tensor.placements)
    kind = "partial" if partial else "sharded" if sharded else "replicated"
    return {"kind": kind, "ranks": same, "placements": str(tuple(tensor.placements))}
