"""Step lines as columns of numbers, one track for each rank (or for each file, where ranks are not known)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from preflight.investigate.series.averages import undone
from preflight.investigate.series.counters import laid_end_to_end
from preflight.investigate.series.words import at_step
from preflight.vocabulary.log import StepLine

RATES = ("tokens_per_second", "samples_per_second", "steps_per_second", "iterations_per_second")
"""Values whose inverse goes like the time of a step."""


TINY, HUGE = 1e-12, 1e12
"""What is not between them is no time of a step, nor a rate."""


OTHER_WORK = 100.0
"""What is so many times as fast or as slow is not the same work."""


MOST = 0.99
"""Where so many lines tell their step, the few others are left out of what is put in the order of the steps."""


class Points(NamedTuple):
    """One value over the lines that had it: the positions of those lines in their track, and the numbers."""

    at: Any
    numbers: Any


class Track:
    """The step lines of one writer, in the order in which they were read."""

    def __init__(self, rank: int | None, node: str | None) -> None:
        self.rank = rank
        self.node = node
        self.lines: list[StepLine] = []
        self.rounds = False
        self._steps: Any = None
        self._printed: Any = None
        self._seconds: tuple[Series | None] | None = None
        self._times: Any = None
        self._points: dict[str, Points] = {}
        self._names: frozenset[str] | None = None

    @property
    def steps(self) -> Any:
        """The step of each line, counted on where the counter begins again in each epoch; -1 where it has none."""
        if self._steps is None:
            import numpy

            printed = self.counter
            epochs: Any = numpy.fromiter(
                (line.values.get("epoch", numpy.nan) for line in self.lines), numpy.float64, len(self.lines)
            )
            whole = laid_end_to_end(printed, epochs)
            self.rounds = whole is not None
            self._steps = printed if whole is None else whole
        return self._steps

    @property
    def counter(self) -> Any:
        """The step of each line as it is printed; -1 where it has none."""
        if self._printed is None:
            import numpy

            self._printed = numpy.fromiter(
                (-1 if line.step is None else line.step for line in self.lines), numpy.int64, len(self.lines)
            )
        return self._printed

    @property
    def seconds(self) -> Series | None:
        """The time of each step, found once: see ``step_seconds``."""
        if self._seconds is None:
            self._seconds = (_step_seconds(self),)
        return self._seconds[0]

    def printed(self, step: int) -> int | None:
        """The step as its line says it."""
        import numpy

        at = int(numpy.argmax(self.steps == step))
        return self.lines[at].step if self.steps[at] == step else None

    @property
    def times(self) -> Any:
        """The time of each line; NaN where it has none."""
        if self._times is None:
            import numpy

            self._times = numpy.fromiter(
                (numpy.nan if line.time is None else line.time for line in self.lines), numpy.float64, len(self.lines)
            )
        return self._times

    def names(self) -> frozenset[str]:
        """Every value that some line of it has."""
        if self._names is None:
            self._names = frozenset().union(*(line.values for line in self.lines))
        return self._names

    def points(self, name: str) -> Points:
        """One value over the lines that had it."""
        if not self._points:
            self._points = self._alike()
        found = self._points.get(name)
        if found is None:
            import numpy

            at, numbers = [], []
            for position, line in enumerate(self.lines if name in self.names() else ()):
                number = line.values.get(name)
                if number is not None:
                    at.append(position)
                    numbers.append(number)
            found = Points(numpy.array(at, dtype=numpy.int64), numpy.array(numbers, dtype=numpy.float64))
            self._points[name] = found
        return found

    def _alike(self) -> dict[str, Points]:
        """Return all values at once where every line has the same, as of most ranks; none where one has others."""
        import numpy

        names = tuple(self.lines[0].values) if self.lines else ()
        if not names or any(tuple(line.values) != names for line in self.lines):
            return {}
        rows = [tuple(line.values.values()) for line in self.lines]
        at: Any = numpy.arange(len(rows), dtype=numpy.int64)
        return dict(
            zip(names, (Points(at, one) for one in numpy.array(rows, dtype=numpy.float64).T.copy()), strict=True)
        )


class Series(NamedTuple):
    """Numbers in order, the step of each (-1: not told), and the line that each came from."""

    name: str
    steps: Any
    numbers: Any
    lines: list[StepLine]

    def step(self, at: int) -> int | None:
        """The step of one number, as its line says it."""
        return self.lines[at].step

    def place(self, at: int) -> str:
        """Where one number stands, in words: the step, with the line where steps are counted anew in each epoch."""
        step = self.step(at)
        counted_on = step is not None and step != int(self.steps[at])
        return at_step(step, at) + (f" (line {self.lines[at].line:,})" if counted_on else "")


def tracks_of(steps: Iterable[StepLine]) -> list[Track]:
    """Sort the lines by who wrote them; those of one rank belong together, whatever file they stand in."""
    found: dict[tuple[int | None, str | None, int], Track] = {}
    for line in steps:
        who = line.who
        key = (who.rank, None, -1) if who.rank is not None else (None, who.node, line.file)
        track = found.get(key)
        if track is None:
            track = found[key] = Track(who.rank, who.node)
        elif track.node is None and who.node is not None:
            track.node = who.node
        track.lines.append(line)
    for track in found.values():
        track.lines = _last_run(track.lines)
    return sorted(found.values(), key=lambda one: (one.rank is None, one.rank or 0))


def _last_run(lines: list[StepLine]) -> list[StepLine]:
    """Return the lines of the last run, where epochs without a step are all that is told and they begin again."""
    begun = epoch = first = None
    for place, line in enumerate(lines):
        if line.step is not None:
            return lines
        told = line.values.get("epoch")
        if told is None or told != told:
            continue
        first = told if first is None else first
        if epoch is not None and told < epoch - 1 and told <= first + 1:
            begun = place
        epoch = told
    return lines if begun is None else lines[begun:]


def by_step(track: Track, name: str, *, reached: bool = False) -> Series:
    """A value in the order of the steps; of a step that was done again, after a restart, the last time counts.

    Args:
        track: The lines of a writer.
        name: The value.
        reached: Whether to leave out what the last start has not reached yet: where it ends, the numbers of another one would follow.
    """
    import numpy

    at, numbers = track.points(name)
    steps = track.steps[at]
    told = steps >= 0
    if len(steps) and told.mean() > MOST and (numpy.diff(steps[told]) <= 0).any():
        at, numbers, steps = at[told], numbers[told], steps[told]
        begun = _last_but_one(steps)
        at, numbers, steps = at[begun:], numbers[begun:], steps[begun:]
        _, last = numpy.unique(steps[::-1], return_index=True)
        chosen = len(steps) - 1 - last
        at, numbers, steps = at[chosen], numbers[chosen], steps[chosen]
        if reached:
            newest = int(numpy.argmax(at)) + 1
            at, numbers, steps = at[:newest], numbers[:newest], steps[:newest]
    return Series(name, steps, numbers, [track.lines[i] for i in at])


def _last_but_one(steps: Any) -> int:
    """Return where the last start but one begins that counts from the beginning; 0 where there are no two.

    What the last start has not reached yet is told by the one before.
    Older ones are other trainings, and may have gone further than any after them: their ends are no ends of this one.
    """
    import numpy

    anew: Any = numpy.flatnonzero((numpy.diff(steps) < 0) & (steps[1:] <= steps[0] + 1)) + 1
    return int(anew[-2]) if len(anew) > 1 else 0


def step_seconds(track: Track) -> Series | None:
    """The time of each step: as it was printed, else from a rate, else from the clock between two lines."""
    return track.seconds


def _step_seconds(track: Track) -> Series | None:
    import numpy

    known = track.steps[track.steps >= 0]
    if len(known) > 1 and float((numpy.diff(known) < 0).mean()) > 0.1:
        # Not one run after the other but many beside each other: a table of a sweep.
        return None
    for name in ("seconds", *RATES):
        at, numbers = track.points(name)
        if len(at) >= 2:
            good = (numbers > TINY) & (numbers < HUGE)
            at, numbers = _of_one_kind(track, at[good], numbers[good])
            taken = numbers if name == "seconds" else 1.0 / numbers
            single = undone(taken, _beginnings(track, at))
            if single is not None:
                kept = single[0] > TINY
                taken, at = single[0][kept], at[single[1]][kept]
            return Series(name, track.steps[at], taken, [track.lines[i] for i in at])
    return _clocked(track)


def _beginnings(track: Track, at: Any) -> Any:
    """Where the printed counter of steps, or the file, begins again."""
    import numpy

    printed = track.counter[at]
    return numpy.concatenate([[0], numpy.flatnonzero(numpy.diff(printed) < 0) + 1]) if len(at) else numpy.zeros(1, int)


def _of_one_kind(track: Track, at: Any, numbers: Any) -> tuple[Any, Any]:
    """What belongs to the training, where bars of other work stand between: a round of steps a hundred times as fast."""
    import numpy

    begins = _beginnings(track, at)
    if len(begins) < 2:
        return at, numbers
    ends: Any = numpy.append(begins[1:], len(at))
    middles = numpy.array([float(numpy.median(numbers[low:high])) for low, high in zip(begins, ends, strict=True)])
    usual = middles[int(numpy.argmax(ends - begins))]
    alike = (middles > usual / OTHER_WORK) & (middles < usual * OTHER_WORK)
    kept: Any = numpy.repeat(alike, ends - begins)
    return at[kept], numbers[kept]


def _clocked(track: Track) -> Series | None:
    import numpy

    good = numpy.flatnonzero((track.steps >= 0) & numpy.isfinite(track.times))
    if len(good) < 3:
        return None
    steps, times = track.steps[good], track.times[good]
    ahead, took = numpy.diff(steps), numpy.diff(times)
    kept = numpy.flatnonzero((ahead > 0) & (took >= 0) & (took < HUGE))
    if len(kept) < 2:
        return None
    ends = good[kept + 1]
    seconds = took[kept] / ahead[kept]
    if not (seconds > 0).any():
        return None
    # Whole seconds on the clock and shorter steps: as many lines are taken together as make the error of reading small.
    whole = bool((times == numpy.floor(times)).all())
    typical = float(took[kept].mean())
    together = int(min(max(1, numpy.ceil(20.0 / typical)), len(kept) // 20 or 1)) if whole and typical < 20.0 else 1
    if together > 1:
        count = len(kept) // together * together
        seconds = took[kept[:count]].reshape(-1, together).sum(1) / ahead[kept[:count]].reshape(-1, together).sum(1)
        ends = ends[:count].reshape(-1, together)[:, -1]
    return Series("seconds", track.steps[ends], seconds, [track.lines[i] for i in ends])
