"""Losses that hold one that was gone backward from before: over how many steps they reach back, and what counts twice.

Only a graph that is kept can be gone through again, so that nothing is looked at where none is. A root of a pass is marked
in its own dictionary, which lives as long as it does; nothing of a graph is held. An operation with several results, as one
that takes a tensor apart, is the root of each of them: marked is which one was gone backward from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .graph import ADDING, name_of
from .recorder import Recorder

THROUGH, AGAIN = "through", "again"
_MARK = "preflight_root"
_MOST_NODES = 64
_NONE = (-1, 0, 0)


class Chained:
    """Follows how the roots of backward passes whose graphs are kept lie in one another, from iteration to iteration."""

    def __init__(self, recorder: Recorder, frozen: Callable[[], bool], written: Callable[[], bool]) -> None:
        """Take the recorder, and who tells what the program does by hand.

        Args:
            recorder: The recorder.
            frozen: Whether parameters were frozen or freed since they were last looked at.
            written: Whether gradients were written to since the last pass.
        """
        self.recorder = recorder
        self._frozen = frozen
        self._written = written
        self._since = 0  # the pass before which the program last wrote to gradients
        self._marked = False

    def look(self, loss: Any, kept: bool, seen: dict[str, Any]) -> None:
        """Tell of an earlier pass whose root is this one's or lies in its sum, and mark a root whose graph is kept.

        Told is through how many losses of earlier iterations, that were stepped on, it goes; or how many passes ago one was
        that no step has followed yet, and whose gradients are as it left them.
        """
        root = getattr(loss, "grad_fn", None)
        if root is None or not (kept or self._marked):
            return
        recorder = self.recorder
        if self._written():
            self._since = recorder.passes
        found = self._found(root, loss.output_nr)
        number, iteration, depth = found
        if 0 <= number < recorder.passes - recorder.waiting:  # it lies before the last step of any optimizer
            if iteration < recorder.iteration:
                depth += 1
                seen[THROUGH] = depth
        elif number >= self._since and not self._frozen():
            seen[AGAIN] = recorder.passes - number
        if kept and loss.numel() == 1:  # of more numbers the program may weigh each as it likes
            marks = root.metadata.setdefault(_MARK, {})
            if len(marks) < _MOST_NODES:
                marks[loss.output_nr] = (recorder.passes, recorder.iteration, depth)
            self._marked = True

    def _found(self, root: Any, result: int) -> tuple[int, int, int]:
        """The last pass whose root lies in this one's sum, as it was marked: with its iteration and through how many it went."""
        nodes, known, found = [(root, result)], {(id(root), result)}, _NONE
        if not self._marked:
            return found
        for count, (node, number) in enumerate(nodes):  # grows as it goes
            if count >= _MOST_NODES:
                break
            mark = node.metadata.get(_MARK, {}).get(number)
            if mark is not None:
                found = max(found, mark)  # of a sum that lies within another one, the outer one is the later
            elif name_of(node) in ADDING:
                for below, place in node.next_functions:
                    if below is not None and (id(below), place) not in known:
                        known.add((id(below), place))
                        nodes.append((below, place))
        return found
