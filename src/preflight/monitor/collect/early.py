"""Rows of a process that is still being set up: held until it is known what it is for.

A process that ``multiprocessing`` starts anew runs the person's module once more, and only then what it was started for:
a rank, which keeps what the module did (its seeds), or the worker of a loader, of which that tells nothing.
A module that does not ask whether it is the main one does all of its work there, for as long as that takes: what is held
has an end.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

MOST = 10_000
"""Rows that are held."""


def preparing() -> bool:
    """Whether ``multiprocessing`` still imports the person's module, or unpickles what this process is to do."""
    process = sys.modules.get("multiprocessing.process")
    return process is not None and bool(getattr(process.current_process(), "_inheriting", False))


class Early:
    """Takes rows in the place of a writer."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, tuple[Any, ...]]] = []

    @property
    def full(self) -> bool:
        """Whether as many rows are held as may be."""
        return len(self._rows) >= MOST

    @property
    def any(self) -> bool:
        """Whether a row is held."""
        return bool(self._rows)

    def put(self, kind: str, row: tuple[Any, ...]) -> None:
        """Hold one row."""
        self._rows.append((kind, row))

    def put_all(self, kind: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Hold several rows of one kind."""
        self._rows.extend((kind, row) for row in rows)

    def taken(self) -> list[tuple[str, tuple[Any, ...]]]:
        """Return the rows that were held, and hold them no more."""
        rows, self._rows = self._rows, []
        return rows
