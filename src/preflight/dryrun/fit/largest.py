"""The largest batch that fits: memory grows nearly linearly with the batch, so that two runs tell where to look."""

from __future__ import annotations

import math
import os

from preflight.dryrun.fit.batches import Hold, Place, changed, holds
from preflight.dryrun.fit.rounds import OutOfTime, Rounds, why_not
from preflight.vocabulary.measured import BatchPoint, LargestBatch
from preflight.vocabulary.profile import Profile

MOST = 12
"""Runs of a search."""
FACTOR = 16
"""A batch larger than so many times the script's is not looked for."""


class Search:
    """The batches of one script.

    Args:
        rounds: Runs the script.
        seen: Its run as it is.
        capacity: What PyTorch can take of the GPU.
    """

    def __init__(self, rounds: Rounds, seen: Profile, capacity: int) -> None:
        self.rounds, self.seen, self.capacity = rounds, seen, capacity
        self.hold: Hold | None = None
        self.points: dict[int, BatchPoint] = {}
        self.reason: str | None = None

    def find_hold(self, told: int | None, place: Place | None) -> None:
        """Find a way to change the batch, by changing it.

        Raises:
            OutOfTime: The time is over.
        """
        tried = []
        for hold in holds(self.rounds.job, self.seen, told, place):
            value = hold.before * 2 if self.seen.full is None else max(1, hold.before // 2)
            if value == hold.before:
                self.hold = hold
                self.points[value] = _point(value, self.seen)
                return
            seen = self._run(hold, value)
            if seen is not None and changed(self.seen, seen, hold.before, value):
                self.hold = hold
                self.points = {hold.before: _point(hold.before, self.seen), value: _point(value, seen)}
                return
            tried.append(hold.how)
        ways = {"argument": "the command line", "constant": "the numbers called so in the code", "loader": "the data loaders",
                "rows": "the rows that come to the GPU"}  # fmt: skip
        names = ", ".join(dict.fromkeys(ways[how] for how in tried))
        self.reason = (
            f"the batch could not be changed by {names}"
            if tried
            else "no batch was recognised in what the model is given"
        )

    def _run(self, hold: Hold, value: int) -> Profile | None:
        seen = self.rounds.again(f"batch {value}", hold.changes(value), hold.arguments(self.rounds.job, value))
        return seen if seen is not None and why_not(seen) is None else None

    def look(self) -> None:
        """Run batches until the largest that fits and the one above it are known.

        Raises:
            OutOfTime: The time is over.
        """
        hold = self.hold
        if hold is None:
            return
        for _ in range(MOST):
            value = self._next(FACTOR * hold.before)
            if value is None:
                return
            seen = self._run(hold, value)
            if seen is None or not changed(self.seen, seen, hold.before, value):
                self.reason = f"the run with a batch of {value} did not get through"
                return
            self.points[value] = _point(value, seen)
        self.reason = f"{MOST} runs did not tell it closer"

    @property
    def fitting(self) -> int:
        """The largest batch that was seen to fit, or 0."""
        return max((n for n, point in self.points.items() if point.fits), default=0)

    @property
    def failing(self) -> int | None:
        """The smallest batch that was seen not to fit."""
        return min((n for n, point in self.points.items() if not point.fits), default=None)

    def _next(self, most: int) -> int | None:
        """Return the batch that is to be run next; None once the answer is known."""
        low, high = self.fitting, self.failing
        if high is not None and high - low <= 1:
            return None
        if low >= most:
            self.reason = f"no batch above {low} was tried"
            return None
        # What blocks alone would need cannot fit, however well they lie; it is run all the same before it is said.
        above = max(low + 1, self._where("peak_bytes") + 1)
        above = above if high is None else min(above, high)
        value = self._where("reserved_bytes") if len(self.points) < 3 else (low + above) // 2
        return min(most, max(low + 1, min(value, above if above != high else above - 1)))

    def _where(self, measure: str) -> int:
        """The largest batch within the capacity, by the line through the two batches that lie farthest apart."""
        first, last = (self.points[pick(self.points)] for pick in (min, max))
        least, most = (int(getattr(point, measure)) for point in (first, last))
        if most <= least:
            return 2 * last.batch
        each = (most - least) / (last.batch - first.batch)
        return max(1, math.floor(first.batch + (self.capacity - least) / each))

    def summary(self, late: bool) -> LargestBatch:
        """Return what is known."""
        hold = self.hold
        if hold is None:
            return LargestBatch(reason="the time did not suffice" if late else self.reason)
        high = self.failing
        root = os.path.abspath(self.rounds.job.root)
        closed = high is not None and high - self.fitting <= 1
        return LargestBatch(
            before=hold.before,
            batch=self.fitting if self.fitting or closed else None,
            next=high,
            points=tuple(self.points[n] for n in sorted(self.points)),
            place=hold.shown(self.rounds.job, root),
            how=hold.how,
            reason=None if closed else ("the time did not suffice to look closer" if late else self.reason),
        )


def _point(batch: int, seen: Profile) -> BatchPoint:
    return BatchPoint(batch, seen.peak_bytes, max(seen.reserved_bytes, seen.peak_bytes), seen.full is None)


def search(
    rounds: Rounds, seen: Profile, capacity: int, told: int | None, place: Place | None
) -> tuple[Search, LargestBatch]:
    """Look for the largest batch; what is known when the time is over is told."""
    found, late = Search(rounds, seen, capacity), False
    try:
        found.find_hold(told, place)
        found.look()
    except OutOfTime:
        late = True
    return found, found.summary(late)
