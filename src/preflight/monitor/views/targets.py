"""The targets of losses over classes, as the recorder tells them: how many there were, and what each counted for."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from statistics import pstdev
from typing import NamedTuple

from preflight.monitor.window import Call, Number, Window

_CLOSE = 0.01
_STEPS = 3
_MOST = 0.6  # so that no step is enough by itself
_APART = 0.9
"""What the standard deviations of the logarithms of the numbers add up to: in each step one is twice the other, nearly."""
COUNT, EACH = "targets.count", "targets.each"


class Counted(NamedTuple):
    """The targets of one loss in one backward pass.

    Attributes:
        place: Where the backward pass is in the code, and which of its losses it is.
        targets: How many there were; those that are ignored do not count.
        each: What the loss of each counts for in the gradient.
    """

    place: str
    targets: float
    each: float

    @property
    def share(self) -> float:
        """What they count for together."""
        return self.targets * self.each


class Counts:
    """Follows the windows of one rank: which targets each step of an optimizer was made of."""

    def __init__(self) -> None:
        self._held: list[tuple[int, Counted]] = []  # with the step in which they came
        self._open: Number | None = None

    def see(self, window: Window) -> Iterator[tuple[Call, list[Counted]]]:
        """The steps of a window that anything is known of, in order, each with its targets."""
        events: list[Call | Number] = [one for one in window.numbers if one.name in (COUNT, EACH)]
        if not events:
            return
        events += window.named("step") + window.named("zero_grad")
        for event in sorted(events, key=lambda one: one.q):
            if isinstance(event, Number):
                self._take(event)
                continue
            found = [one for step, one in self._held if step == event.s]
            self._held.clear()
            if event.name == "step" and found:
                yield event, found

    def _take(self, number: Number) -> None:
        """A count is followed by the weight that belongs to it."""
        if number.name == COUNT:
            self._open = number
        elif self._open is not None and self._open.object == number.object and self._open.value and number.value:
            self._held.append((number.s, Counted(number.object, self._open.value, number.value)))


class Evenness:
    """Whether things that hold different numbers of targets count the same, again and again."""

    def __init__(self, fixed: bool = False) -> None:
        """Take whether numbers count that stay as they are: of several tasks in turn they may be meant so."""
        self._fixed = fixed
        self._last: deque[tuple[float, tuple[float, ...]]] = deque(maxlen=_STEPS)  # how far apart, and the numbers

    def judge(self, counts: tuple[float, ...], shares: tuple[float, ...]) -> bool | None:
        """Whether it is so now and was before; None where there is nothing to judge.

        It takes numbers that lie far apart, in several steps: of what differs little it matters little how it is
        weighed, and a single small batch is the end of an epoch.
        """
        if min(counts) <= 0:
            return None
        sizes = [abs(share) for share in shares]
        even = max(sizes) - min(sizes) <= _CLOSE * max(sizes)
        apart = min(pstdev(map(math.log, counts)), _MOST)
        changing = self._fixed or any(one != counts for _, one in self._last)
        self._last.append((apart if even else 0.0, counts))
        if not apart:
            return None
        return even and changing and sum(one for one, _ in self._last) >= _APART


def rows(place: str, count: float, each: float) -> list[tuple[str, str, str, float]]:
    """Rows of a small trace for one loss."""
    return [("scalar", COUNT, place, count), ("scalar", EACH, place, each)]
