"""Numbers that a loss is to teach and that the program makes anew for each pass.

A parameter of one element that is part of no model and held by no optimizer is known by the graph of the loss alone. Whether
it is the one of the pass before is told by weak references, so that nothing of the program is kept alive. The first backward
passes of each place in the code are looked at, in detailed iterations.

One that is made for its gradient alone, to be read after the pass, is a probe, and no number to be learnt: a hook is set on
it, or a function that holds it while the pass begins reads gradients.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from itertools import islice
from typing import Any

from .backward import read_later
from .bounded import BoundedLooks
from .entry import Entry
from .naming import user_frames
from .places import from_program
from .plain import impossible, simple
from .recorder import Recorder
from .scope import variables
from .variables import Variables

NAME = "number.anew"
_LOOKS = 6
_MOST_PLACES = 32
_MOST_NODES = 2000
_MOST_NUMBERS = 4


class Anew:
    """Looks at the leaves of the graphs of losses."""

    def __init__(self, recorder: Recorder, variables: Variables) -> None:
        self.recorder = recorder
        self._variables = variables
        self._looks = BoundedLooks(_LOOKS, _MOST_PLACES)
        self._before: dict[str, list[weakref.ref[Any]]] = {}

    def look(self, entry: Entry, loss: Any) -> None:
        """Tell of the numbers in a loss that are others than those of the pass before, with their values."""
        recorder, place = self.recorder, entry.place or ""
        root = getattr(loss, "grad_fn", None)
        if root is None or self._variables.stale or impossible(recorder.torch) or not self._looks.take(place):
            return
        found = list(islice(self._unknown(root), _MOST_NUMBERS))
        before = self._before.get(place)
        self._before[place] = [weakref.ref(one) for one in found]
        if before is None:
            return
        alive = [one for ref in before if (one := ref()) is not None]
        head, word = recorder.head(), from_program(entry.place)
        for number in found:
            if all(number is not one for one in alive) and not _is_read(number):
                recorder.later(read_later(number), lambda read: [("scalar", (*head, NAME, word, read[0]))])

    def _unknown(self, root: Any) -> Iterator[Any]:
        """Parameters of one element that no model and no optimizer holds."""
        parameter = self.recorder.torch.nn.Parameter
        seen, open_ = {root}, [root]
        while open_:
            node = open_.pop()
            leaf: Any = getattr(node, "variable", None)
            if type(leaf) is parameter and leaf.numel() == 1 and simple(leaf) and self._variables.of(leaf) is None:
                yield leaf
            for child, _ in node.next_functions:
                if child is not None and child not in seen and len(seen) < _MOST_NODES:
                    seen.add(child)
                    open_.append(child)


def _is_read(number: Any) -> bool:
    """Whether the gradient of a number may be read: by a hook, or by a function of the program that still holds it."""
    if getattr(number, "_backward_hooks", None) or getattr(number, "_post_accumulate_grad_hooks", None):
        return True
    return any(
        "grad" in frame.f_code.co_names and any(value is number for value in variables(frame).values())
        for frame in user_frames(sys._getframe(1))
    )
