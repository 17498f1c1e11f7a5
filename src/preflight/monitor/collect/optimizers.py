"""Optimizers: their making, their steps, the clearing of gradients, and the loading of what they keep."""

from __future__ import annotations

from typing import Any

from .clearings import Clearings
from .enrolled import Enrolled
from .entry import Entry
from .groups import MOST_GROUPS, number_of
from .naming import Names
from .patching import Patches
from .recorder import Recorder
from .rewritten import Rewritten
from .state import States
from .steps import Steps
from .variables import Variables


class Optimizers:
    """Everything that watches the optimizers of the process.

    Attributes:
        uncleared: The optimizers that have stepped and of whose clearing nothing was heard since.
        unstepped: Looks at what optimizers hold that have never stepped.
        rewritten: Whether the gradients of a step are those that a backward pass left.
    """

    def __init__(self, recorder: Recorder, names: Names, variables: Variables, states: States) -> None:
        self.recorder = recorder
        self.variables = variables
        self.states = states
        self.rewritten = Rewritten(variables)
        self._enrolled = enrolled = Enrolled(recorder, names, variables)
        self._clearings = Clearings(recorder, enrolled, states)
        self._steps = Steps(recorder, enrolled, states, self._clearings, self.rewritten)
        self.uncleared, self.unstepped = self._clearings.uncleared, self._clearings.unstepped
        self.name, self.holds = enrolled.name, enrolled.holds
        self.resting = self._clearings.resting
        self.resume = self._steps.resume

    def install(self, patches: Patches) -> None:
        """Put the hooks in place."""
        self._steps.install(patches)
        self._clearings.install(patches)
        self._enrolled.install(patches)
        base = self.recorder.torch.optim.Optimizer
        patches.around(base, "load_state_dict", self._loading, self._loaded)

    def _loading(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        given = kwargs.get("state_dict", args[1] if len(args) > 1 else None)
        groups = given.get("param_groups", ()) if isinstance(given, dict) else ()
        state = given.get("state", ()) if isinstance(given, dict) else ()
        rates = [number_of(group.get("lr")) for group in groups if isinstance(group, dict)]
        seen: dict[str, Any] = {"state": len(state), "rates": rates[:MOST_GROUPS]}
        first = [number_of(group.get("initial_lr")) for group in groups if isinstance(group, dict)]
        if any(one is not None for one in first):  # it had a schedule
            seen["first"] = first[:MOST_GROUPS]
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
