"""Losses whose graphs outlive their steps: how many of one place in the code are still held.

A graph is marked by an object in the dictionary of one of its operations, which lives as long as the operation does; only a
weak reference to it is kept, so that nothing of a graph is held here.
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any

from .graph import name_of

HELD = "held"
_MARK = "preflight_lasting"
MANY = 50
"""Graphs of one place that are told of: who keeps the last few losses to look at them keeps fewer."""
_MOST_PLACES = 64
_SCALING = ("Mul", "Div")
_MOST_SCALINGS = 4


class _Mark:
    __slots__ = ("__weakref__",)


class Lasting:
    """Follows how long the graphs of losses live after their backward passes."""

    def __init__(self) -> None:
        self._marks: dict[str, deque[weakref.ref[_Mark]]] = {}
        self._told: set[str] = set()

    def look(self, place: str, loss: Any, seen: dict[str, Any]) -> None:
        """Mark the graph of a loss, and tell, once for each place, that none of the last ones there has gone.

        Args:
            place: Where the backward pass begins.
            loss: What it begins at.
            seen: What is told of the pass.
        """
        root = getattr(loss, "grad_fn", None)
        if root is None or loss.numel() != 1 or place in self._told:
            return
        marks = self._marks.get(place)
        if marks is None:
            if len(self._marks) >= _MOST_PLACES:
                return
            marks = self._marks[place] = deque()
        if marks and marks[-1]() is None:
            marks.clear()  # the last one has gone: whatever is still there of those before is no sum that grows
        below = _unscaled(root)
        if below.metadata.get(_MARK) is not None:
            return  # a loss that is passed back more than once
        if len(marks) >= MANY:
            if all(mark() is not None for mark in marks):
                seen[HELD] = len(marks)
                self._told.add(place)
            marks.clear()
        mark = below.metadata[_MARK] = _Mark()
        marks.append(weakref.ref(mark))


def _unscaled(node: Any) -> Any:
    """The operation that a loss comes from, before it was scaled or divided by a number for this pass."""
    for _ in range(_MOST_SCALINGS):
        below = [one for one, _ in node.next_functions if one is not None]
        if name_of(node) not in _SCALING or len(below) != 1:
            break
        node = below[0]
    return node
