"""Losses whose graphs outlive their steps: how many of one place in the code are still held.

A graph is marked by an object in the dictionary of one of its operations, which lives as long as the operation does; only a
weak reference to it is kept, so that nothing of a graph is held here.
"""

from __future__ import annotations

import weakref
from typing import Any

from .graph import name_of
from .recorder import Recorder

HELD = "held"
MANY = 50
"""Graphs of one place, held into the next epoch, that are told of: who keeps the last few losses keeps fewer."""
WITHOUT_EPOCHS = 10 * MANY
"""Graphs that are told of where no loader says when an epoch ends, up to which a list of losses may be kept."""
_MARK = "preflight_lasting"
_MOST_PLACES = 64
_SCALING = ("Mul", "Div")
_MOST_SCALINGS = 4


class _Mark:
    __slots__ = ("__weakref__",)


class _Held:
    """What is known of the losses of one place, each of which was still held when the next one was passed back."""

    def __init__(self, passes: int) -> None:
        self.since = passes
        self.count = 0
        self.first: list[weakref.ref[_Mark]] = []
        self.last: weakref.ref[_Mark] | None = None

    def add(self, mark: _Mark) -> None:
        """Take the mark of one loss more; of those that follow the first ones only the last is remembered."""
        self.count += 1
        self.last = weakref.ref(mark)
        if len(self.first) < MANY:
            self.first.append(self.last)


class Lasting:
    """Follows how long the graphs of losses live after their backward passes."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._held: dict[str, _Held] = {}
        self._told: set[str] = set()

    def look(self, place: str, loss: Any, seen: dict[str, Any]) -> None:
        """Mark the graph of a loss, and tell, once for each place, how many of those before have not gone.

        Args:
            place: Where the backward pass begins.
            loss: What it begins at.
            seen: What is told of the pass.
        """
        root = getattr(loss, "grad_fn", None)
        if root is None or loss.numel() != 1 or place in self._told:
            return
        below = _unscaled(root)
        if below.metadata.get(_MARK) is not None:
            return  # a loss that is passed back more than once
        held = self._held.get(place)
        if held is None and len(self._held) >= _MOST_PLACES:
            return
        if held is None or held.last is None or held.last() is None:
            held = self._held[place] = _Held(self.recorder.passes)
        elif held.count >= self._allowed(held):
            if all(mark() is not None for mark in held.first):
                seen[HELD] = held.count
                self._told.add(place)
                del self._held[place]
                return
            held = self._held[place] = _Held(self.recorder.passes)
        mark = below.metadata[_MARK] = _Mark()
        held.add(mark)

    def _allowed(self, held: _Held) -> float:
        """How many losses may be held: any number until the epoch ends in which the first one was passed back."""
        began = self.recorder.epoch_began
        if began is None:
            return WITHOUT_EPOCHS
        return MANY if held.since < began else float("inf")


def _unscaled(node: Any) -> Any:
    """The operation that a loss comes from, before it was scaled or divided by a number for this pass."""
    for _ in range(_MOST_SCALINGS):
        below = [one for one, _ in node.next_functions if one is not None]
        if name_of(node) not in _SCALING or len(below) != 1:
            break
        node = below[0]
    return node
