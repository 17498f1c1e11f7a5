"""Optimizers: their making, their steps and what changes in one, the clearing of gradients."""

from __future__ import annotations

import sys
import weakref
from typing import Any

from . import accumulation, units
from .closures import Closures, Given, closure_of
from .entry import Entry
from .naming import Names, inner, modules_in_sight
from .patching import Patches
from .recorder import Recorder
from .rewritten import Rewritten
from .roster import Held
from .state import States
from .variables import Variables

_NAMED = ("lr", "momentum", "weight_decay")
_MOST_GROUPS = 64
_MOST_WRITTEN = 100
_BEFORE_EVERY = 4  # iterations in which norms of parameters before a step are taken, beside the detailed ones
_CLOSER = 3  # iterations after parameters were frozen or freed in which what no optimizer holds is looked at
_MOST_CLOSER = 4  # how often that is done; some programs do so in every step
_FIRST = 2  # steps of each optimizer that are always looked at: what it began with, and on which weights
_PHASE = 3  # iterations that are recorded in detail where a new optimizer begins a phase of training
_MOST_PHASES = 4
_IDLE = 16  # steps of others in a row after which the optimizer whose steps count is one that is not used any more
_STATES_EVERY = 10  # detailed iterations in which an optimizer's own state is looked at


class Optimizers:
    """Hooks on every optimizer of the process."""

    def __init__(self, recorder: Recorder, names: Names, variables: Variables, states: States) -> None:
        self.recorder = recorder
        self.names = names
        self.variables = variables
        self.states = states
        self._open: dict[int, Entry] = {}
        self._opened_in = 0
        self._closures = Closures(recorder)
        self._closer = _MOST_CLOSER
        self._closer_until = 0  # the iteration from which on nothing is looked at closer because of a thaw
        self._settings: dict[int, list[tuple[Any, ...]]] = {}
        self._steps: dict[int, int] = {}
        self._unheld = 0  # variables of no optimizer, when they were last looked at
        self._used: dict[int, int] = {}  # how many backward passes there were when gradients were last used or cleared
        self._made: list[weakref.ref[Any]] = []
        self._making: weakref.ref[Any] | None = None
        self._frozen: weakref.WeakKeyDictionary[Any, list[weakref.ref[Any]]] = weakref.WeakKeyDictionary()
        self._casts: dict[int, int] = {}
        self.uncleared: set[int] = set()
        self.rewritten = Rewritten(variables)
        self._versions: dict[int, tuple[int, int]] = {}
        self._phases = 0
        self._idle = 0  # steps of other optimizers since the last one of that whose steps count

    def install(self, patches: Patches) -> None:
        """Put the hooks in place."""
        torch = self.recorder.torch
        base = torch.optim.Optimizer
        module = sys.modules["torch.optim.optimizer"]
        patches.keep(module.register_optimizer_step_pre_hook(self._before))
        patches.keep(module.register_optimizer_step_post_hook(self._after))
        patches.around(base, "zero_grad", self._clearing)
        patches.around(torch.nn.Module, "zero_grad", self._clearing_module)
        patches.around(base, "add_param_group", self._group_added, self._group_was_added)
        patches.around(base, "load_state_dict", self._loading, self._loaded)

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
            {word: group[word] for word in _NAMED if isinstance(group.get(word), (int, float))}
            for group in optimizer.param_groups[:_MOST_GROUPS]
        ]
        args = {"index": index, "sizes": sizes, "frozen": frozen, "groups": groups}
        self.recorder.event("optimizer.new", f"optimizer{index}:{type(optimizer).__name__}", args)
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

    def _take_in(self) -> None:
        """Number the optimizers that were made and not used yet: what they hold is not without one."""
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
            self._making = weakref.ref(optimizer)
            self._made.append(self._making)
            return None  # it is being made; it is taken in at its first use, or when another one steps
        return self.recorder.enter("add_param_group", self.name(optimizer))

    def _group_was_added(self, entry: Entry | None, value: Any, error: BaseException | None) -> None:
        if entry is not None:
            self.variables.stale = True
            self.recorder.leave(entry, None, error)
            return
        optimizer = self._making() if self._making is not None else None
        self._making = None
        if optimizer is not None and error is None:
            held = optimizer.param_groups[-1]["params"]
            frozen = [weakref.ref(tensor) for tensor in held if not tensor.requires_grad]
            self._frozen.setdefault(optimizer, []).extend(frozen[:_MOST_WRITTEN])

    def _thawed(self, optimizer: Any) -> tuple[list[int], int]:
        """Of what was frozen while an optimizer was made, what is trained now, and how much still is not."""
        frozen = [tensor for known in self._frozen.pop(optimizer, ()) if (tensor := known()) is not None]
        thawed = {id(tensor) for tensor in frozen if tensor.requires_grad}
        held = self.variables.living(self.variables.index_of(optimizer))
        return [variable.ident for variable, tensor in held if id(tensor) in thawed], len(frozen) - len(thawed)

    # -- gradients are cleared

    def _clearing(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        self.recorder.begins("zero_grad")
        index = self.variables.index_of(args[0])
        self.uncleared.discard(index)
        self._unused(index)
        to_none = kwargs.get("set_to_none", args[1] if len(args) > 1 else True)
        return self.recorder.enter("zero_grad", self.name(args[0]), {"set_to_none": bool(to_none)})

    def _clearing_module(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        self.recorder.begins("zero_grad")
        self.uncleared.clear()
        self._unused(None)
        name = self.names.of(args[0]) or type(args[0]).__name__
        return self.recorder.enter("zero_grad", name, {"module": True})

    def _unused(self, index: int | None) -> None:
        """Look at gradients that are thrown away: a backward pass made them and no step has used them."""
        recorder = self.recorder
        passes = recorder.passes
        known = self._used.get(index, -1) if index is not None else max(self._used.values(), default=-1)
        if known >= 0 and known < passes and recorder.norms and not self.variables.stale:
            self.states.gradients("before_clear", index, False)
        for one in self._used if index is None else (index,):
            self._used[one] = passes

    def _loading(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        given = kwargs.get("state_dict", args[1] if len(args) > 1 else None)
        groups = given.get("param_groups", ()) if isinstance(given, dict) else ()
        state = given.get("state", ()) if isinstance(given, dict) else ()
        rates = [_number(group.get("lr")) for group in groups if isinstance(group, dict)]
        seen = {"state": len(state), "rates": rates[:_MOST_GROUPS]}
        entry = self.recorder.enter("load_state_dict", self.name(args[0]), seen)
        entry.about = args[0]
        return entry

    def _loaded(self, entry: Entry | None, value: Any, error: BaseException | None) -> None:
        if entry is None:
            return
        optimizer, entry.about = entry.about, None
        self.recorder.leave(entry, None, error)
        if error is None:
            if self.variables.stale:
                self.variables.refresh()
            self.states.optimizer("loaded", optimizer, self.variables.index_of(optimizer))

    # -- steps

    def _before(self, optimizer: Any, args: Any, kwargs: Any) -> Given | None:
        recorder = self.recorder
        if recorder.torch.compiler.is_compiling() or not recorder.active() or recorder.gave_up("step"):
            return None
        awaited = self._closures.awaited
        if (self._open or awaited) and recorder.iteration > self._opened_in + 1:
            self._open.clear()  # a step that ended with an exception
            awaited.clear()
        if (self._open or awaited) and id(optimizer) not in self._open:
            return None  # a step within another one's: the optimizer that a wrapper holds
        closure = closure_of(args, kwargs) is not None
        given: Given | None = None
        with recorder.work("step"):
            self._opened_in = recorder.iteration
            if closure and self._closures.waits(optimizer):
                given = self._closures.given(optimizer, args, kwargs, lambda well: self._evaluated(optimizer, well))
            else:
                self._begin(optimizer, closure)
        return given

    def _evaluated(self, optimizer: Any, well: bool) -> None:
        """The closure of a step has been called for the first time: the gradients that the step uses are there."""
        awaited = self._closures.awaited.get(id(optimizer))
        if awaited is None or not well:
            self._closures.awaited.pop(id(optimizer), None)
            return
        with self.recorder.work("step"):
            self._opened_in = self.recorder.iteration
            self._begin(optimizer, not awaited.untouched, awaited.untouched)

    def _begin(self, optimizer: Any, closure: bool, look: bool = True) -> None:
        """Open a step; ``look`` where its parameters are still as they were before it."""
        recorder = self.recorder
        index = self.variables.index_of(optimizer)
        if index < 0:
            index = self.register(optimizer)
        self._lead(index)
        if self._made:
            self._take_in()
        known = self.variables
        flags = known.flags_changed()
        if flags and self._closer > 0 and recorder.iteration + 1 >= recorder.detail_until:
            self._closer -= 1
            self._closer_until = recorder.iteration + _CLOSER
        if flags or (known.changed() if recorder.detail else known.stale or self.names.changed):
            self.variables.refresh()
        name = f"optimizer{index}:{type(optimizer).__name__}"
        exact = recorder.detail
        held = self.variables.living(index)
        written = self._written(held)
        young = self._steps.get(index, 0) < _FIRST
        closer = recorder.iteration < self._closer_until
        if look and (recorder.norms or young or closer):
            self.states.gradients("before_step", index, False, held)
            if exact or written or young or recorder.evaluated or recorder.iteration % _BEFORE_EVERY == 0:
                self.states.parameters("before_step", index, exact, held)
            if (exact or closer) and self._others(index):
                self.states.parameters("before_step", -1, True)
                self.states.gradients("before_step", -1, False)
        if self._steps.get(index, 0) == units.AFTER and recorder.wants(units.NAME):
            units.look(recorder, held)
        self._rates(optimizer, name, index)
        seen: dict[str, Any] = {"closure": closure}
        if written:
            seen["written"] = written
        if not self._steps.get(index, 0) and self._replaced(held):
            seen["replaced"] = True
        if self.rewritten.replaced(index):
            seen["rewritten"] = True
        if _held_at_zero(optimizer):
            seen["held_at_zero"] = True
        amidst = accumulation.amidst()
        if amidst is not None:
            seen["accumulating"] = amidst
        if recorder.detail and recorder.casts_cleared:
            seen["casts_idle"] = recorder.casts_idle
        recorder.casts_idle = 0
        if optimizer in self._frozen:
            thawed, rest = self._thawed(optimizer)
            if thawed:
                seen.update({"thawed": thawed, "still_frozen": rest})
        if index == recorder.primary or recorder.detail or young:
            seen["states"] = len(optimizer.state)
        self._opened_in = recorder.iteration
        entry = self._open[id(optimizer)] = recorder.enter("step", name, seen)
        inside = "autocast" in entry.context and recorder.torch.is_autocast_cache_enabled()
        if inside:
            # Copies of the weights in the lower precision live until the outermost autocast context ends.
            seen["casts_kept"] = self._casts.get(index) == recorder.casts_cleared
        self._casts[index] = recorder.casts_cleared if inside else -1

    def _lead(self, index: int) -> None:
        """Count the steps of the first optimizer, and of another one when that is gone or no longer steps."""
        recorder = self.recorder
        first = recorder.primary
        self._idle = 0 if index == first else self._idle + 1
        if first is None or self._idle > _IDLE or not self.variables.lives(first):
            recorder.primary, self._idle = index, 0

    def _others(self, index: int) -> bool:
        """Whether to look at what no optimizer holds: with one of them, and with any where there is more than before."""
        if index != self.recorder.primary and self._steps.get(index, 0):
            return False
        count = len(self.variables.living(-1))
        more, self._unheld = count > self._unheld, count
        return more or index == self.recorder.primary

    def _written(self, held: Held) -> list[int]:
        """Variables that were written to since the optimizer's last step, as torch counts it; ``.data`` is not counted."""
        known = self._versions
        if _versions(held).items() <= known.items():
            return []  # as after nearly every step
        return [
            variable.ident
            for variable, tensor in held
            if variable.kind == "parameter" and known.get(variable.ident, (None, 0))[0] == id(tensor)
            if known[variable.ident][1] != tensor._version
        ][:_MOST_WRITTEN]

    def _replaced(self, held: Held) -> bool:
        """Whether tensors stand under names under which an optimizer has stepped others, as those of a new model do."""
        return any(self._versions.get(variable.ident, (id(one), 0))[0] != id(one) for variable, one in held)

    def _rates(self, optimizer: Any, name: str, index: int) -> None:
        """Hand over the settings of the groups that have changed since they were last handed over."""
        recorder = self.recorder
        known = self._settings.setdefault(index, [])
        for number, group in enumerate(optimizer.param_groups[:_MOST_GROUPS]):
            now = tuple(_number(group.get(word)) for word in _NAMED)
            before = known[number] if number < len(known) else (None,) * len(_NAMED)
            for word, value, old in zip(_NAMED, now, before, strict=True):
                if value is not None and (value != old or (recorder.detail and word == "lr")):
                    recorder.scalar(word, f"{name}.{number}", value)
            if number < len(known):
                known[number] = now
            else:
                known.append(now)

    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        recorder = self.recorder
        entry = self._open.pop(id(optimizer), None)
        if entry is None and id(optimizer) not in self._closures.awaited:
            return
        with recorder.work("step"):
            if entry is None:  # it never called its closure
                self._begin(optimizer, True, False)
                entry = self._open.pop(id(optimizer))
            if id(optimizer) in self._closures.awaited and entry.args is not None:
                entry.args["closure"] = not self._closures.ended(optimizer)
            recorder.leave(entry)
            index = self.variables.index_of(optimizer)
            held = self.variables.living(index)
            self._versions.update(_versions(held))
            steps = self._steps[index] = self._steps.get(index, 0) + 1
            if recorder.norms or recorder.exact_after or steps <= _FIRST:
                self.states.parameters("after_step", index, recorder.exact_after, held)
                if recorder.detail and (steps <= _FIRST or recorder.iteration % _STATES_EVERY == 0):
                    self.states.optimizer("after_step", optimizer, index)
                    if index == recorder.primary:
                        self.states.buffers("after_step", True)
            recorder.trained = True
            recorder.waiting = 0
            self.uncleared.add(index)
            self._used[index] = recorder.passes
            if index == recorder.primary:
                recorder.stepped = True
                recorder.evaluated = False
                recorder.step += 1


def _held_at_zero(optimizer: Any) -> bool:
    """Whether a scheduler, which remembers the rate that it was given, keeps all groups of an optimizer at zero."""
    groups = optimizer.param_groups
    if _number(groups[0].get("lr")) != 0 or any(_number(group.get("lr")) != 0 for group in groups):
        return False
    return any((_number(group.get("initial_lr")) or 0) > 0 for group in groups)


def _versions(held: Held) -> dict[int, tuple[int, int]]:
    """By the number of each variable which tensor it is, and how often that was written to."""
    return {variable.ident: (id(tensor), tensor._version) for variable, tensor in held}


def _number(value: Any) -> float | None:
    """A setting as a number when it is one; a tensor is read only where that costs nothing."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    if getattr(value, "numel", None) is not None and value.device.type == "cpu" and value.numel() == 1:
        return float(value)
    return None
