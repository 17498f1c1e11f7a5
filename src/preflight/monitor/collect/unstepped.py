"""Optimizers that have never stepped though gradients come for what they hold: whether anything else moves it.

A step that is compiled runs no hooks, and some programs only clear gradients by an optimizer and update by hand. Such
parameters move all the same, and nothing is missing; those of an optimizer whose step was forgotten stay to the last bit.
Nothing is looked at in a program whose optimizers step before gradients have come for them a second time.
"""

from __future__ import annotations

from .enrolled import Enrolled
from .recorder import Recorder
from .state import States

WAITING = "waiting"
"""The moment of such a look."""
_TAKEN_IN = 4  # backward passes in a row without a step, after which optimizers that nobody has used yet are looked for
_EACH = 4  # gradients of each of the first so many passes are a reason to look
_EVERY = 8  # then those of every so many
_OFTEN = 64  # and beyond these of twice as many each time


class Unstepped:
    """Looks at the parameters of optimizers that have never stepped."""

    def __init__(self, recorder: Recorder, enrolled: Enrolled, states: States) -> None:
        self.recorder = recorder
        self.enrolled = enrolled
        self.states = states
        self._stepped: set[int] = set()
        self._counts: dict[int, int] = {}  # by optimizer, how often gradients were there for it
        self._at = -1  # the backward passes that there were when gradients were last counted
        self._counted: set[int] = set()  # of which optimizers

    def stepped(self, index: int) -> None:
        """Note that an optimizer has stepped: it is not looked at any more."""
        self._stepped.add(index)
        self._counts.pop(index, None)

    def passes(self) -> None:
        """A backward pass begins: optimizers that were made and never used are known after some without a step."""
        if self.recorder.waiting == _TAKEN_IN:
            self.enrolled.take_in()

    def having(self, indices: list[int]) -> None:
        """Gradients lie there for what these optimizers hold, as they are cleared or the next backward pass begins."""
        recorder = self.recorder
        if self._at != recorder.passes:
            self._at = recorder.passes
            self._counted.clear()
        for index in indices:
            if index < 0 or index in self._stepped or index in self._counted:
                continue
            self._counted.add(index)
            count = self._counts[index] = self._counts.get(index, 0) + 1
            if _wanted(count) and not self.enrolled.variables.stale:
                self.states.parameters(WAITING, index, True)


def _wanted(count: int) -> bool:
    if count <= _EACH:
        return True
    return count % _EVERY == 0 if count <= _OFTEN else count & (count - 1) == 0
