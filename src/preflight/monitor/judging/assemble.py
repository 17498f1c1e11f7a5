"""Rows to windows: puts the rows of a process together by iteration, in whatever pieces they come."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from operator import itemgetter
from typing import Any

from preflight.monitor.window import ORDER, ROWS, Call, Run, Window

_LISTS = {
    "call": "calls",
    "state": "states",
    "tensor": "tensors",
    "scalar": "numbers",
    "batch": "batches",
    "memory": "memory",
    "variable": "changed",
}
_MAKE: dict[str, Callable[[Any], Any]] = {kind: partial(tuple.__new__, made) for kind, made in ROWS.items()}
_STEP = itemgetter(Call._fields.index("s"))


class Assembler:
    """Makes the windows of one process from its tables, each as soon as the recorder says that it is complete.

    What comes out does not depend on how the rows are cut into pieces.
    """

    def __init__(self) -> None:
        self.run = Run(0, 1)
        self.role = "trainer"
        self.ended: dict[str, Any] | None = None
        self._open: dict[int, Window] = {}
        self._told: list[tuple[int, str, dict[str, Any]]] = []

    def feed(self, tables: dict[str, dict[str, list[Any]]]) -> Iterator[Window]:
        """Take the tables of one block and yield the windows that are complete with it."""
        for kind, columns in tables.items():
            if kind in ROWS:
                self._rows(kind, columns)
            elif kind != "iteration":
                self._notes(kind, columns)
        done = tables.get("iteration")
        if done:
            for number, iteration in zip(done["q"], done["i"], strict=True):
                self._learn(number)
                yield from self._until(iteration)

    def finish(self) -> Iterator[Window]:
        """Yield what is left when no more rows come: iterations that may have been cut short."""
        self._learn(None)
        for number in sorted(self._open):
            window = self._open.pop(number)
            window.complete = False
            yield self._given(window)

    def _rows(self, kind: str, columns: dict[str, list[Any]]) -> None:
        make, where = _MAKE[kind], _LISTS[kind]
        # Made by tuple's own constructor: a NamedTuple's is a function in Python, and there are very many rows.
        fields = list(columns.values())[: len(ROWS[kind]._fields)]
        rows = list(map(make, zip(*fields, strict=True)))
        if not rows:
            return
        iterations = columns["i"]
        if iterations.count(iterations[0]) == len(rows):
            getattr(self._window(iterations[0]), where).extend(rows)
            return
        in_order = iterations == sorted(iterations)
        start = 0
        while start < len(rows):
            number, end = iterations[start], start + 1
            if in_order:
                end = bisect_right(iterations, number, start)
            while end < len(rows) and iterations[end] == number:
                end += 1
            getattr(self._window(number), where).extend(rows[start:end])
            start = end

    def _notes(self, kind: str, columns: dict[str, list[Any]]) -> None:
        for row in _dictionaries(columns):
            if kind == "end":
                self.ended = row
            if kind not in ("begin", "group") and "i" in row:
                self._window(row["i"]).notes.setdefault(kind, []).append(row)
            self._told.append((row["q"], kind, row))

    def _learn(self, number: int | None) -> None:
        """Take in what was told of the run up to an event, and not what came with it in the same block."""
        if not self._told:
            return
        later = []
        for told in self._told:
            before, kind, row = told
            if number is not None and before > number:
                later.append(told)
            elif kind == "begin":
                self.run.begin = row
                self.run.rank, self.run.world, self.role = row["rank"], row["world"], row["role"]
            elif kind == "group":
                self.run.groups[row["id"]] = row["ranks"]
            else:
                self.run.notes.setdefault(kind, []).append(row)
        self._told = later

    def _window(self, iteration: int) -> Window:
        window = self._open.get(iteration)
        if window is None:
            window = self._open[iteration] = Window(self.run, iteration)
        return window

    def _until(self, iteration: int) -> Iterator[Window]:
        for number in sorted(self._open):
            if number <= iteration:
                yield self._given(self._open.pop(number))

    def _given(self, window: Window) -> Window:
        """Bring what is known of the run to where the window is."""
        window.rank = self.run.rank
        window.calls.sort(key=ORDER)
        window.step = min(map(_STEP, window.calls), default=0)
        for variable in window.changed:
            self.run.variables[variable.id] = variable
        return window


def _dictionaries(columns: dict[str, list[Any]] | None) -> list[dict[str, Any]]:
    if not columns:
        return []
    names = list(columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]
