"""How many rows of each kind could not be kept."""

from __future__ import annotations

import _thread
from collections import Counter


class Losses:
    """Counts rows from any thread, and tells of them once."""

    def __init__(self) -> None:
        self._lost: dict[tuple[int, str], int] = {}  # each thread has numbers of its own: no two add at the same time
        self._told: dict[str, int] = {}

    @property
    def total(self) -> int:
        """How many there are so far."""
        return sum(count for _, count in list(self._lost.items()))

    def count(self, kind: str, rows: int = 1) -> None:
        """Count rows of a kind."""
        key = (_thread.get_ident(), kind)
        self._lost[key] = self._lost.get(key, 0) + rows

    def count_all(self, kinds: Counter[str]) -> None:
        """Count rows of several kinds."""
        for kind, rows in kinds.items():
            self.count(kind, rows)

    def tell(self) -> str:
        """How many there are of each kind that were not told of before; nothing where there are none."""
        if not self._lost:
            return ""
        counts: dict[str, int] = {}
        for (_, kind), count in list(self._lost.items()):
            counts[kind] = counts.get(kind, 0) + count
        new = {kind: count - self._told.get(kind, 0) for kind, count in sorted(counts.items())}
        said = ", ".join(f"{count} {kind}" for kind, count in new.items() if count)
        if said:
            self._told = counts
        return said

    def forget_what_was_told(self) -> None:
        """Have all of them told once more."""
        self._told = {}
