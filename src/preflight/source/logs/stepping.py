"""Gathers the steps of one file: line by line, and column by column where lines of one shape come again and again."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from preflight.source.logs.literals import Found
from preflight.source.logs.neighbours import METRICS_BELOW, bar_before
from preflight.source.logs.pages import Line, Page
from preflight.source.logs.rows import Repeated, Rows
from preflight.source.logs.sampling import Sample
from preflight.source.logs.shapes import Shape, Shapes
from preflight.source.logs.signing import KEPT, Signing
from preflight.source.logs.steps import step_of
from preflight.vocabulary.log import StepLine

_TOGETHER = 4096
"""Lines that are taken at once."""
_MOST_BELOW = 80
_LONGEST = 8000


class Stepping:
    """The steps of one file.

    What a line tells may depend on what was read before it, its time above all.
    So ``before`` is called with each line that is read by itself, and takes the lines before it that are read by columns.

    Attributes:
        keep: Keeps no more than about so many steps from now on.
        kept: Gives the steps in the order of their lines.
    """

    def __init__(self, shapes: Shapes, repeated: Repeated, signing: Signing, most: int) -> None:
        """Keep about ``most`` steps."""
        self._signing = signing
        self._shapes = shapes
        self._witness = shapes.witness
        self._repeated = repeated
        self._sample = Sample(most)
        self.keep = self._sample.limit
        self.kept = self._sample.kept
        self._page: Page
        self._rows: Rows | None = None
        self._next = 0

    @property
    def thinned(self) -> bool:
        """Whether steps were left out, as there were more than are kept."""
        return self._sample.thinned

    def begin(self, page: Page) -> None:
        """Begin with a block."""
        self._sample.next_page()
        self._page = page
        self._again = 0
        self._rows = self._repeated.rows(page)
        self._next = 0

    def literals(self, find: Callable[[bytes], Found]) -> Found:
        """Return the literals of the block that are looked at; those of lines that are read by columns may be left out."""
        return find(self._page.data) if self._rows is None else self._rows.literals(find)

    def has(self, start: int) -> bool:
        """Whether the line that begins there is read by columns."""
        return self._rows is not None and start in self._rows

    def before(self, place: int) -> None:
        """Take the lines before a place that are read by columns."""
        rows = self._rows
        if rows is None or self._next >= len(rows.starts) or rows.starts[self._next] >= place:
            return
        last = bisect_left(rows.starts, place, self._next)
        while self._next < last:
            first = self._next
            self._next = min(last, first + _TOGETHER)
            if not self._together(rows, first, self._next):
                # The first lines of a signature or of a minute are looked at, those behind them seldom.
                self._next = min(last, first + KEPT)
                for number in range(first, self._next):
                    self._one(rows, number)

    def _together(self, rows: Rows, first: int, last: int) -> bool:
        """Take lines at once; False where one of them has to be taken by itself."""
        if not self._sample.takes(last - first):
            return False
        groups = rows.taken(first, last, self._shapes)
        if not all(self._signing.knows(shape.taken, who) for shape, who, _ in groups):
            return False
        steps = rows.steps(first, last, self._shapes)
        if steps is None:
            return False
        for shape, who, numbers in groups:
            spans = [(rows.starts[number], rows.ends[number]) for number in numbers[-KEPT:]]
            self._signing.count_all(self._page, shape.taken, who, spans, len(numbers))
        self._sample.add_all(steps)
        rows.passed(steps, self._shapes)
        return True

    def _one(self, rows: Rows, number: int) -> None:
        start, end = rows.starts[number], rows.ends[number]
        shape = rows.shape(number)
        if shape.taken:
            self._signing.again(self._page, shape.taken, self._shapes.who(self._page, start, shape), start, end)
        if not self._sample.wants(start, end):
            return
        step = rows.step(number, self._shapes)
        if isinstance(step, StepLine):
            self._sample.add(step)
        elif step:
            self.add(self._page.line(start, end))

    def wants(self, start: int, end: int) -> bool:
        """Whether the next line that may tell of a step is one to be kept."""
        return self._sample.wants(start, end)

    def add(self, line: Line) -> None:
        """Keep the step that a line tells."""
        step = self._step_of(line)
        if step is not None:
            self._sample.add(step)

    def again(self, start: int, end: int, shape: Shape, key: bytes) -> None:
        """Take a line of a shape that was read before."""
        self._repeated.see(key, shape)
        self._again += 1
        if not self._sample.wants(start, end) or shape.step is None:
            return
        step = self._shapes.step(self._page, start, end, shape, shape.step)
        if step is None:
            self.add(self._page.line(start, end))
        else:
            self._sample.add(step)

    def end(self) -> None:
        """End with a block."""
        self.before(self._page.own)
        self._repeated.were(self._again + self._next, self._page.own)

    def keep_last(self) -> None:
        """Keep the last steps of a file, those of its last block that were not kept."""
        for start, end in self._sample.passed_over():
            step = self._step_of(self._page.line(start, end))
            if step is not None:
                self._sample.add_last(step)

    def _step_of(self, line: Line) -> StepLine | None:
        text = line.text[line.head.end :]
        if METRICS_BELOW.match(text):
            parts = [text]
            for below in self._page.below(line, _MOST_BELOW):
                if not below[:1].isspace() or not below.strip():
                    break
                parts.append(below.strip())
            text = " | ".join(parts)
        step = step_of(text[:_LONGEST])
        if step is None:
            return None
        number = step.step if step.step is not None else bar_before(self._page.data, line.start)
        stamp = line.head.stamp
        return StepLine(
            file=self._witness.file.index,
            line=line.number,
            step=number,
            values=step.values,
            who=self._witness.who(line),
            time=self._witness.clock.at(stamp) if stamp else None,
        )
