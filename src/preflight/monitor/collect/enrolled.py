"""The optimizers that are known: each is numbered before its first use, and the models that it trains get their names."""

from __future__ import annotations

import sys
import threading
import weakref
from typing import Any

from .chosen import Chosen
from .entry import Entry
from .groups import MOST_GROUPS, NAMED, made_at_zero, options
from .naming import Names, inner, modules_in_sight
from .patching import Patches
from .places import here
from .recorder import Recorder
from .roster import Lot
from .variables import Variables

_MOST_FROZEN = 100
_PHASE = 3  # iterations that are recorded in detail where a new optimizer begins a phase of training
_MOST_PHASES = 4
_MOST_PLACES = 64


class Enrolled:
    """Takes optimizers in, and watches how they are made and loaded."""

    def __init__(self, recorder: Recorder, names: Names, variables: Variables) -> None:
        self.recorder = recorder
        self.names = names
        self.variables = variables
        self._made: list[weakref.ref[Any]] = []
        self._making: dict[int, weakref.ref[Any]] = {}  # by thread: several may make optimizers at once
        self._frozen: weakref.WeakKeyDictionary[Any, list[weakref.ref[Any]]] = weakref.WeakKeyDictionary()
        self._chosen = Chosen(recorder)
        self._phases = 0
        self._places: weakref.WeakKeyDictionary[Any, str | None] = weakref.WeakKeyDictionary()
        self.made_at: dict[int, tuple[str, str]] = {}  # by number, the kind of an optimizer and where it was made

    def install(self, patches: Patches) -> None:
        """Watch how groups are added."""
        base = self.recorder.torch.optim.Optimizer
        patches.around(base, "add_param_group", self._group_added, self._group_was_added)

    def name(self, optimizer: Any) -> str:
        """What an optimizer is called: its number and its kind."""
        index = self.variables.index_of(optimizer)
        if index < 0:
            index = self.register(optimizer)
        return f"optimizer{index}:{type(optimizer).__name__}"

    def holds(self, tensor: Any) -> bool:
        """Whether an optimizer holds a tensor."""
        groups = (group["params"] for _, one in self.variables.optimizers() for group in one.param_groups)
        return any(held is tensor for group in groups for held in group)

    def register(self, optimizer: Any) -> int:
        """Take an optimizer in: number it, and look which models of the calling code it trains."""
        index = self.variables.add_optimizer(optimizer)
        place = self._places.get(optimizer)
        if place and len(self.made_at) < _MOST_PLACES:
            self.made_at[index] = type(optimizer).__name__, place
        wanted = {id(tensor) for group in optimizer.param_groups for tensor in group["params"]}
        others = []
        for name, module in modules_in_sight(sys._getframe(1)):
            if self.names.of(module) is not None:
                continue
            if any(id(tensor) in wanted for tensor in module.parameters()):
                self.names.root(module, given=name)
            else:
                others.append((name, module))
        if others:
            self._take_copies(others, wanted)
        self.variables.refresh()
        sizes = [len(group["params"]) for group in optimizer.param_groups]
        frozen = sum(not tensor.requires_grad for group in optimizer.param_groups for tensor in group["params"])
        groups = [
            {word: group[word] for word in NAMED if isinstance(group.get(word), (int, float))}
            for group in optimizer.param_groups[:MOST_GROUPS]
        ]
        args: dict[str, Any] = {"index": index, "sizes": sizes, "frozen": frozen, "groups": groups}
        args["options"] = [options(group) for group in optimizer.param_groups[:MOST_GROUPS]]
        if made_at_zero(optimizer):
            args["made_at_zero"] = True
        self.recorder.event("optimizer.new", f"optimizer{index}:{type(optimizer).__name__}", args)
        self.recorder.within("settings", self._chosen.tell, sys._getframe(1))
        self._begins_phase()
        return index

    def _take_copies(self, others: list[tuple[str, Any]], wanted: set[int]) -> None:
        """Know networks of the kind that is trained before they are called: averages and targets are moved long before."""
        trained = {
            (type(module), tuple(one.shape for one in module.parameters()))
            for _, module in self.names.living()
            if any(id(one) in wanted for one in module.parameters())
        }
        kinds = {kind for kind, _ in trained}
        for name, module in others:
            kind = type(inner(module))
            if kind in kinds and (kind, tuple(one.shape for one in module.parameters())) in trained:
                self.names.root(module, given=name)

    def _begins_phase(self) -> None:
        """Look closer at what follows a new optimizer in the middle of a run, a few times, as at the run's beginning."""
        recorder = self.recorder
        late = recorder.iteration > 0 and recorder.iteration >= recorder.detail_until
        if late and recorder.settings.detail_first and self._phases < _MOST_PHASES:
            self._phases += 1
            recorder.detail_until = recorder.iteration + 1 + _PHASE

    def take_in(self) -> None:
        """Number the optimizers that were made and not used yet: what they hold is not without one."""
        if not self._made:
            return
        made, self._made = self._made, []
        for known in made:
            optimizer = known()
            if optimizer is not None and self.variables.index_of(optimizer) < 0:
                self.register(optimizer)

    # -- a group is added while the optimizer is made, and perhaps later

    def _group_added(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        optimizer = args[0]
        self.recorder.optimized = True
        if self.variables.index_of(optimizer) < 0:
            made = self._making[threading.get_ident()] = weakref.ref(optimizer)
            self._made.append(made)
            if optimizer not in self._places:
                self._places[optimizer] = here()
            return None  # it is being made; it is taken in at its first use, or when another one steps
        return self.recorder.enter("add_param_group", self.name(optimizer))

    def _group_was_added(self, entry: Entry | None, value: Any, error: BaseException | None) -> None:
        if entry is not None:
            self.variables.stale = True
            self.recorder.leave(entry, None, error)
            return
        making = self._making.pop(threading.get_ident(), None)
        optimizer = None if making is None else making()
        if optimizer is not None and error is None:
            held = optimizer.param_groups[-1]["params"]
            frozen = [weakref.ref(tensor) for tensor in held if not tensor.requires_grad]
            self._frozen.setdefault(optimizer, []).extend(frozen[:_MOST_FROZEN])

    def thawed(self, optimizer: Any, held: Lot) -> tuple[list[int], int]:
        """Of what was frozen while an optimizer was made, what is trained now, and how much still is not; told once.

        Args:
            optimizer: The optimizer, at its first step.
            held: What it holds.
        """
        if optimizer not in self._frozen:
            return [], 0
        frozen = [tensor for known in self._frozen.pop(optimizer) if (tensor := known()) is not None]
        thawed = {id(tensor) for tensor in frozen if tensor.requires_grad}
        return [one.ident for one, tensor in held.pairs() if id(tensor) in thawed], len(frozen) - len(thawed)
