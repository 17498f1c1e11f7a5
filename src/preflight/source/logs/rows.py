"""Finds, in a block, the lines of shapes that came again and again, and reads them column by column."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, repeat
from typing import Any

from preflight.source.logs import columns as by_column
from preflight.source.logs.columns import Columns, Told
from preflight.source.logs.literals import Found
from preflight.source.logs.pages import Page
from preflight.source.logs.shapes import LONGEST, Shape, Shapes
from preflight.vocabulary.log import StepLine, Who

_OFTEN = 12
"""Lines of a shape after which it is looked for."""
_FEWEST, _EACH = 200, 1 << 13
"""So many such lines, and one more for each of so many bytes, are worth looking for: fewer are read sooner one by one."""
_MOST = 256
_DENSE = 0.2
"""Where these lines are more of a block than this, it is searched for literals without them."""


class Repeated:
    """The shapes that came again and again in files whose lines bear the same labels."""

    def __init__(self) -> None:
        """Know none."""
        import numpy as np

        self._np = np
        self._seen: dict[bytes, int] = {}
        self._known: dict[int, list[Columns]] = {}
        self._count = 0
        self._rate = 0.0
        self._lengths: Any = np.zeros(LONGEST + 2, bool)

    def see(self, key: bytes, shape: Shape) -> None:
        """Count a line of a shape."""
        seen = self._seen[key] = self._seen.get(key, 0) + 1
        if seen != _OFTEN:
            if len(self._seen) > _MOST * _MOST:
                self._seen.clear()
            return
        columns = by_column.columns_of(key, shape)
        if columns is None:
            return
        if self._count >= _MOST:
            self._known.clear()
            self._seen.clear()
            self._lengths[:] = False
            self._count = 0
        self._known.setdefault(len(key), []).append(columns)
        self._lengths[len(key)] = True
        self._count += 1

    def were(self, count: int, size: int) -> None:
        """Remember how many lines of known shapes a block of some size had: the next one is expected to be like it."""
        self._rate = count / max(size, 1)

    def rows(self, page: Page) -> Rows | None:
        """Return the lines of these shapes in a page; None where there are none, or where lines are not broken as usual."""
        few = self._rate * page.own < _FEWEST + page.own / _EACH
        if not self._count or few or page.returns:
            return None
        np, ends = self._np, page.ends
        ends = ends[: np.searchsorted(ends, page.own)]
        if not len(ends):
            return None
        starts = np.concatenate(([0], ends[:-1] + 1))
        lengths = ends - starts
        some = np.flatnonzero(self._lengths.take(np.minimum(lengths, LONGEST + 1)))
        lengths = lengths[some]
        words = np.ndarray(len(page.data) - 7, "<u8", page.data, strides=(1,))
        found = []
        for length in np.flatnonzero(np.bincount(lengths, minlength=1)).tolist():
            left, hits = some[lengths == length], []
            for columns in self._known[length]:
                if not len(left):
                    hits.append(0)
                    continue
                place, word = columns.probe
                these = np.flatnonzero(words[starts[left] + place] == np.uint64(word))
                good, digits = by_column.matched(columns, page.data, starts[left[these]])
                hits.append(len(good))
                if len(good):
                    found.append((columns, left[these[good]], digits))
                    left = np.delete(left, these[good])
            # What is most of this block is looked for first in the next one, so that little is left for the others.
            order = sorted(range(len(hits)), key=hits.__getitem__, reverse=True)
            self._known[length] = [self._known[length][at] for at in order]
        return Rows(page, starts, ends, found) if found else None


class Rows:
    """The lines of known shapes in a block, in their order.

    Attributes:
        starts: Where each begins.
        ends: Where each ends.
    """

    def __init__(self, page: Page, starts: Any, ends: Any, found: list[tuple[Columns, Any, dict[int, Any]]]) -> None:
        """Take the lines of each shape: which lines of the block they are, and their digits."""
        import numpy as np

        self._page = page
        self._found = found
        self._told: dict[int, Told] = {}
        self._who: dict[int, dict[int, Who]] = {}
        self._begins = starts
        own = np.concatenate([lines for _, lines, _ in found])
        order = np.argsort(own, kind="stable")
        own = own[order]
        self._shapes = np.repeat(np.arange(len(found)), [len(lines) for _, lines, _ in found])[order].tolist()
        self._places = np.concatenate([np.arange(len(lines)) for _, lines, _ in found])[order].tolist()
        self.starts: list[int] = starts[own].tolist()
        self.ends: list[int] = ends[own].tolist()
        self._set = frozenset(self.starts)
        self._others: list[tuple[int, int]] | None = None
        if int((ends[own] - starts[own]).sum()) > _DENSE * page.own:
            self._others = _others(np, starts, ends, own, len(page.data))

    def __contains__(self, start: int) -> bool:
        """Whether the line that begins there is one of them."""
        return start in self._set

    def literals(self, find: Callable[[bytes], Found]) -> Found:
        """Return the literals of the block; those in these lines are not among them where there are many such lines."""
        data = self._page.data
        if self._others is None:
            return find(data)
        parts = [data[begin:end] for begin, end in self._others]
        cuts = [0, *accumulate(map(len, parts))]
        moved = [begin - cut for (begin, _), cut in zip(self._others, cuts, strict=False)]
        found = []
        for literal, begin, end in find(b"".join(parts)):
            by = moved[bisect_right(cuts, end - 1) - 1]
            found.append((literal, begin + by, end + by))
        return found

    def shape(self, number: int) -> Shape:
        """Return the shape of one of the lines."""
        columns: Columns = self._found[self._shapes[number]][0]
        return columns.shape

    def step(self, number: int, shapes: Shapes) -> StepLine | bool:
        """Return the step that one of the lines tells; False: it tells of none; True: it has to be read as any other line."""
        which, place = self._shapes[number], self._places[number]
        if self._found[which][0].shape.step is None:
            return False
        told = self._read(which, shapes)
        if place in told.odd:
            return True
        (step,) = self._made(which, slice(place, place + 1), shapes)
        if step.time is not None:
            shapes.witness.clock.at_seconds(step.time)
        return step

    def steps(self, first: int, last: int, shapes: Shapes) -> list[StepLine | None] | None:
        """Return the steps of lines in their order; None where one of them has to be read as any other line."""
        steps: list[StepLine | None] = [None] * (last - first)
        for which, numbers in self._of_shapes(first, last).items():
            if self._found[which][0].shape.step is None:
                continue
            if self._read(which, shapes).odd:
                return None
            places = slice(self._places[numbers[0]], self._places[numbers[-1]] + 1)
            made = self._made(which, places, shapes)
            if len(made) == len(steps):
                return [*made]
            for number, step in zip(numbers, made, strict=True):
                steps[number - first] = step
        return steps

    def _of_shapes(self, first: int, last: int) -> dict[int, Sequence[int]]:
        """Return the lines of each shape."""
        if len(self._found) == 1:
            return {0: range(first, last)}
        by: dict[int, list[int]] = {}
        for number in range(first, last):
            by.setdefault(self._shapes[number], []).append(number)
        return {**by}

    def passed(self, steps: Iterable[StepLine | None], shapes: Shapes) -> None:
        """Let the clock pass the times of steps."""
        times = [step.time for step in steps if step is not None and step.time is not None]
        if times:
            for seconds in (min(times), max(times), times[-1]):
                shapes.witness.clock.at_seconds(seconds)

    def taken(self, first: int, last: int, shapes: Shapes) -> list[tuple[Shape, Who, Sequence[int]]]:
        """Return the lines that signatures take, by shape and writer."""
        found: list[tuple[Shape, Who, Sequence[int]]] = []
        for which, numbers in self._of_shapes(first, last).items():
            columns, places = self._found[which][0], self._places
            if not columns.shape.taken:
                continue
            writers = self._read(which, shapes).writers
            if writers is None:
                found.append((columns.shape, self._who[which][0], numbers))
                continue
            by: dict[int, list[int]] = {}
            for number in numbers:
                by.setdefault(writers[places[number]], []).append(number)
            found += [(columns.shape, self._who[which][place], these) for place, these in by.items()]
        return found

    def _made(self, which: int, places: slice, shapes: Shapes) -> list[StepLine]:
        """Return the steps of lines of one shape."""
        columns, told, who = self._found[which][0], self._read(which, shapes), self._who[which]
        assert columns.shape.step is not None
        file, names, fixed, many = shapes.witness.file.index, columns.names, columns.shape.step.fixed, repeat(None)
        lines, steps, values = told.lines[places], told.steps[places], told.values[places]
        times = many if told.times is None else told.times[places]
        writers = repeat(0) if told.writers is None else told.writers[places]
        made: Iterable[dict[str, float]] = map(dict, map(zip, repeat(names), values))
        if fixed:
            made = (row | fixed for row in made)
        return [
            StepLine(file=file, line=line, step=step, values=row, who=who[writer], time=time)
            for line, step, row, time, writer in zip(lines, steps, made, times, writers, strict=False)
        ]

    def _read(self, which: int, shapes: Shapes) -> Told:
        told = self._told.get(which)
        if told is None:
            columns, own, digits = self._found[which]
            begins = self._begins[own]

            def text(place: int) -> bytes:
                begin = int(begins[place])
                return self._page.data[begin : begin + len(columns.key)]

            told = self._told[which] = by_column.read(columns, digits, (own + self._page.first_line).tolist(), text)
            first = {0} if told.writers is None else {*told.writers}
            self._who[which] = {place: shapes.who(self._page, int(begins[place]), columns.shape) for place in first}
        return told


def _others(np: Any, starts: Any, ends: Any, own: Any, length: int) -> list[tuple[int, int]]:
    """Return the parts of a block between some of its lines; each begins behind a break, and ends with one."""
    bounds = np.concatenate(([0], np.column_stack((starts[own], ends[own] + 1)).ravel(), [length])).reshape(-1, 2)
    parts = bounds[bounds[:, 0] < bounds[:, 1]].tolist()
    if parts and parts[0][0]:  # a literal may begin with the break before its line
        parts[0][0] -= 1
    return [(begin, end) for begin, end in parts]
