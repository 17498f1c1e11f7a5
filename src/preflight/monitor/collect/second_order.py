"""Gradients that have a graph of their own: whether anything ever goes back through it.

``torch.autograd.grad(..., create_graph=True)`` gives tensors that a loss may be made of. A hook on them says that a
backward pass came through; it gives nothing back, so that no gradient changes, and holds nothing but a flag.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .entry import Entry
from .places import from_program
from .plain import impossible
from .recorder import Recorder

NAME = "second order"
_MOST_PLACES = 64
_MOST_CALLS = 16
"""Calls of a place that are followed; who has used none of their gradients by then was told of."""


class _Place:
    """A line of the program that takes gradients with a graph."""

    __slots__ = ("calls", "step", "unused", "used")

    def __init__(self) -> None:
        self.calls = 0
        self.step = -1  # the count of steps at the last call
        self.unused = 0  # calls after which a step was made and nothing had come through the gradients of any
        self.used = False


class SecondOrder:
    """Follows what becomes of gradients with a graph."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._places: dict[str, _Place] = {}
        self._wanted = recorder.wants(NAME)

    def given(self, entry: Entry, value: Any) -> None:
        """A call has given gradients: tell how many earlier ones of its line were given for nothing."""
        recorder = self._recorder
        if not self._wanted or not recorder.training or not isinstance(value, (tuple, list)):
            return
        kind = recorder.torch.Tensor
        held = [one for one in value if type(one) is kind and one.requires_grad and one.grad_fn is not None]
        line = from_program(entry.place) if held else ""
        if not line or impossible(recorder.torch):
            return
        place = self._places.get(line)
        if place is None:
            if len(self._places) >= _MOST_PLACES:
                return
            place = self._places[line] = _Place()
        if not place.used and place.calls and recorder.step > place.step:
            place.unused += 1
        entry.args = {"graph": len(held), "unused": 0 if place.used else place.unused}
        place.step = recorder.step
        if place.used or place.calls >= _MOST_CALLS:
            return
        place.calls += 1
        hook = _marks(place)
        for one in held:
            one.register_hook(hook)


def _marks(place: _Place) -> Callable[[Any], None]:
    def hook(_: Any) -> None:
        place.used = True

    return hook
