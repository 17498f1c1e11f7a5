"""Forward passes that are run again within a backward pass: whether dropout draws there what it drew before.

Activation checkpointing computes a part of the model once more. What is drawn at random must be the same both times, or
the gradients belong to other activations than the loss. In detailed iterations the state of the generator is kept where
a layer of dropout begins in a pass of which the graph does not hold everything itself, and compared where it begins again;
it is read, never set.
"""

from __future__ import annotations

from typing import Any

from .naming import Names
from .plain import Outside, impossible
from .recorder import Recorder

NAME = "rerun"
_MOST = 32  # passes of dropout in an iteration whose state is kept
_MOST_TOLD = 64


class Reruns:
    """Keeps the states of generators for one iteration."""

    def __init__(self, recorder: Recorder, names: Names) -> None:
        self.recorder = recorder
        self.names = names
        self._iteration = -1
        self._states: dict[int, list[Any]] = {}
        self._kept = 0
        self._told: set[tuple[str, bool]] = set()

    def first(self, module: Any, args: Any) -> None:
        """A layer of dropout begins a pass that is not one of a backward pass."""
        if self._iteration != self.recorder.iteration:
            self._iteration, self._kept = self.recorder.iteration, 0
            self._states.clear()
        if not module.training or self._kept >= _MOST:
            return
        state = self._state(args)
        if state is not None:
            self._kept += 1
            self._states.setdefault(id(module), []).append(state)

    def again(self, module: Any, args: Any) -> None:
        """A module begins a pass within a backward pass."""
        known = self._states.get(id(module))
        if known is None or self._iteration != self.recorder.iteration or len(self._told) >= _MOST_TOLD:
            return
        with self.recorder.work(NAME):
            state = self._state(args)
            if state is None:
                return
            with Outside(self.recorder.torch):
                same = any(one.shape == state.shape and bool((one == state).all()) for one in known)
            name = self.names.of(module) or type(module).__name__
            if (name, same) not in self._told:
                self._told.add((name, same))
                self.recorder.event(NAME, name, {"type": type(module).__name__, "same": same})

    def _state(self, args: Any) -> Any:
        """The state of the generator that dropout of these inputs draws from, in memory of the host."""
        torch = self.recorder.torch
        device = getattr(args[0], "device", None) if args else None
        if device is None or device.type not in ("cpu", "cuda") or impossible(torch):
            return None
        with Outside(torch):
            return torch.get_rng_state() if device.type == "cpu" else torch.cuda.get_rng_state(device)
