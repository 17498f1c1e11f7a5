"""Gradients are cleared: by an optimizer or a module, and perhaps before any step has used them."""

from __future__ import annotations

from typing import Any

from .enrolled import Enrolled
from .entry import Entry
from .patching import Patches
from .recorder import Recorder
from .state import States
from .unstepped import Unstepped


class Clearings:
    """Watches the clearing of gradients.

    Attributes:
        uncleared: The optimizers that have stepped and of whose clearing nothing was heard since.
        unstepped: Looks at what optimizers hold that have never stepped.
    """

    def __init__(self, recorder: Recorder, enrolled: Enrolled, states: States) -> None:
        self.recorder = recorder
        self.enrolled = enrolled
        self.states = states
        self.uncleared: set[int] = set()
        self.unstepped = Unstepped(recorder, enrolled, states)
        self._used: dict[int, int] = {}  # how many backward passes there were when gradients were last used or cleared
        self._stepped: set[int] = set()

    def install(self, patches: Patches) -> None:
        """Put the watching functions in place."""
        torch = self.recorder.torch
        patches.around(torch.optim.Optimizer, "zero_grad", self._clearing, self._cleared)
        patches.around(torch.nn.Module, "zero_grad", self._clearing_module, self._cleared)

    def stepped(self, index: int) -> None:
        """Note that an optimizer has used its gradients."""
        self.uncleared.add(index)
        self._stepped.add(index)
        self.unstepped.stepped(index)
        self._used[index] = self.recorder.passes

    def resting(self) -> dict[str, list[tuple[str, str]]]:
        """The kind and the place of each optimizer that has not stepped."""
        made = self.enrolled.made_at.items()
        return {f"optimizer{index}:{held[0]}": [held] for index, held in made if index not in self._stepped}

    def _clearing(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        if not self.recorder.trainers.clears():
            return None
        self.recorder.begins("zero_grad")
        name = self.enrolled.name(args[0])
        index = self.enrolled.variables.index_of(args[0])
        self.uncleared.discard(index)
        self._unused(index)
        to_none = kwargs.get("set_to_none", args[1] if len(args) > 1 else True)
        seen = {"set_to_none": bool(to_none), **self._waiting(index)}
        return self.recorder.enter("zero_grad", name, seen)

    def _clearing_module(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        if not self.recorder.trainers.clears():
            return None
        self.recorder.begins("zero_grad")
        self.uncleared.clear()
        self._unused(None)
        name = self.enrolled.names.of(args[0]) or type(args[0]).__name__
        return self.recorder.enter("zero_grad", name, {"module": True, **self._waiting(None)})

    def _cleared(self, entry: Entry | None, value: Any, error: BaseException | None) -> None:
        self.recorder.trainers.ended()
        if entry is not None:
            self.recorder.leave(entry, None, error)

    def _waiting(self, index: int | None) -> dict[str, list[int]]:
        """The optimizers that have never stepped, where others have, and whose gradients may be cleared now."""
        known = self.enrolled.variables
        if index in self._stepped or known.stale:
            return {}
        asked = [one for one, _ in known.optimizers()] if index is None else [index]
        found = [
            one
            for one in asked
            if one not in self._stepped
            and any(tensor.is_leaf and tensor.grad is not None for _, tensor in known.living(one))
        ]
        self.unstepped.having(found)
        return {"waiting": found} if found and self._stepped else {}

    def _unused(self, index: int | None) -> None:
        """Look at gradients that are thrown away: a backward pass made them and no step has used them."""
        recorder = self.recorder
        passes = recorder.passes
        known = self._used.get(index, -1) if index is not None else max(self._used.values(), default=-1)
        if known >= 0 and known < passes and recorder.norms and not self.enrolled.variables.stale:
            self.states.gradients("before_clear", index, False)
        for one in self._used if index is None else (index,):
            self._used[one] = passes
