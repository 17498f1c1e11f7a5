"""Passes that come again from one place with nothing between, and batches fetched without gradients: counted.

A rollout or an evaluation may call a small model hundreds of times for one step. Where to tell of each costs more than the
budget allows (see ``budget.py``), the first few of one place are told in iterations that are not recorded in detail, and
the others are counted; how many they were is told when the iteration ends.
What is asked of such passes is which models take part, in which mode and context, from where, and after what: that is in
the first few. So whatever else is told of, as a backward pass, a step, a change of mode or a batch to train on, begins the
count anew, and what follows it is told again.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from .recorder import Recorder

NAME = "repeats.left_out"
_MOST_PLACES = 4096
_GRAPHED = 4  # passes with gradients that are told however few others are: several of one place are told from one


class Repeated:
    """Counts what comes again.

    Attributes:
        told: How many passes, and batches without gradients, were told since the controller of the budget asked.
        left: How many were left out.
        spent: Nanoseconds that those cost which were told.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.told = self.left = self.spent = 0
        self._times: dict[Any, int] = {}
        self._since = -1  # how many calls had been told when it looked last
        self._left: Counter[str] = Counter()  # by model or loader, in this iteration

    def leaves_out(self, name: str, place: Any, graphed: bool = False) -> bool:
        """Whether a pass of a model, or a batch of a loader, came so often that this one is only counted.

        Args:
            name: The model or the loader.
            place: What tells one from another: mode, context, the line of the person's code.
            graphed: Whether gradients are recorded.
        """
        recorder = self.recorder
        if recorder.calls != self._since:
            self._times.clear()
            self._since = recorder.calls
        times = self._times.get(place, 0)
        if times < (max(recorder.repeats, _GRAPHED) if graphed else recorder.repeats):
            if len(self._times) < _MOST_PLACES:
                self._times[place] = times + 1
            return False
        self.left += 1
        self._left[name] += 1
        return True

    def was_told(self, spent: int) -> None:
        """One was told, at so many nanoseconds: its own row is nothing that comes between."""
        self.told += 1
        self.spent += spent
        self._since = self.recorder.calls

    def boundary(self) -> None:
        """An iteration has ended: tell how many were left out."""
        if self._left:
            for name, count in self._left.items():
                self.recorder.scalar(NAME, name, count)
            self._left.clear()
