"""Rows that are let go while the recorder pauses, and those that are kept until it tells again."""

from __future__ import annotations

from typing import Any

from .columns import ITERATION

_ONCE = frozenset({"variable", "settings", "warning", "trouble", "thinned"})
"""Rows of an iteration that hold for all after it, and are told once."""
_MOST = 20_000

Rows = list[tuple[str, tuple[Any, ...]]]


class Silence:
    """Keeps what must not be lost.

    Attributes:
        on: Whether rows of iterations are let go.
    """

    def __init__(self) -> None:
        self.on = False
        self._held: Rows = []

    def swallows(self, kind: str, row: tuple[Any, ...]) -> bool:
        """Whether a row is not to be handed over now: it belongs to an iteration of which no more is told."""
        if kind in _ONCE and len(self._held) < _MOST:
            self._held.append((kind, row))
        return kind in ITERATION

    def broken(self, iteration: int) -> Rows:
        """Let rows through again; return what was kept, as of this iteration, in which it is heard of."""
        self.on = False
        held, self._held = self._held, []
        placed = ((kind, row, ITERATION[kind]) for kind, row in held)
        return [(kind, (*row[:at], iteration, *row[at + 1 :])) for kind, row, at in placed]
