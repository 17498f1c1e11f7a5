"""Rows that wait for numbers of a device, so that the program need not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

_LOOK_AGAIN = 1e-3  # seconds

Rows = Callable[[Any], Iterable[tuple[str, tuple[Any, ...]]]]
"""Makes rows, each with its kind, of numbers that have come."""


class Taking(Protocol):
    """What takes the rows: the recorder."""

    def number(self) -> int:
        """The next number of an event."""

    def put(self, kind: str, row: tuple[Any, ...]) -> None:
        """Take a row."""

    def trouble(self, where: str, error: BaseException) -> None:
        """Note that something failed."""


class Late:
    """Rows in the order in which they were asked for, and the ends of the iterations that they belong to."""

    def __init__(self, recorder: Taking) -> None:
        """Take what takes the rows."""
        self._recorder = recorder
        self._waiting: list[tuple[Any, Rows]] = []
        self._finished: list[tuple[int, int]] = []

    def add(self, pending: Any, rows: Rows) -> None:
        """Hand over rows as soon as the numbers they need have come, which may be now."""
        if not self._waiting and pending.ready():
            self._give(rows, pending.values())
        else:
            self._waiting.append((pending, rows))

    @property
    def waiting(self) -> bool:
        """Whether rows wait."""
        return bool(self._waiting)

    def finish(self, iteration: int, step: int) -> None:
        """Tell that an iteration has ended, once all of its rows were handed over."""
        self._finished.append((iteration, step))

    def settle(self, patience: float = 0.0) -> None:
        """Hand over the rows whose numbers have come.

        Args:
            patience: Seconds to wait for those that have not; what has not come then is named and given up.
        """
        until = time.monotonic() + patience
        while self._waiting:
            pending, rows = self._waiting[0]
            while not pending.ready() and time.monotonic() < until:
                time.sleep(_LOOK_AGAIN)
            if not pending.ready():
                break
            self._waiting.pop(0)
            self._give(rows, pending.values())
        if self._waiting and patience:
            self._give_up(patience)
        if not self._waiting:
            for iteration, step in self._finished:
                self._recorder.put("iteration", (self._recorder.number(), time.monotonic_ns(), iteration, step))
            self._finished.clear()

    def _give_up(self, patience: float) -> None:
        """A device that hangs, behind a collective operation that nobody joins, must not keep the program from ending."""
        late = TimeoutError(f"{len(self._waiting)} rows lack numbers that a device did not give in {patience:g} s")
        self._waiting.clear()
        self._finished.clear()
        self._recorder.trouble("end", late)

    def _give(self, rows: Rows, values: Any) -> None:
        """Hand over the rows that are made of some values, none where these did not come."""
        for kind, row in rows(values) if values is not None else ():
            self._recorder.put(kind, row)
