"""Seconds of the steps of every rank, in spans that grow with the run: what a heatmap of ranks over steps shows."""

from __future__ import annotations

from typing import NamedTuple

MOST_COLUMNS = 120


class Cell(NamedTuple):
    """The steps of a rank in a span: how many, their seconds together, and the longest."""

    steps: int
    seconds: float
    longest: float


class Spans:
    """Step times by rank and span.

    Attributes:
        width: Steps of a span.
        cells: By rank and the number of the span.
    """

    def __init__(self) -> None:
        self.width = 1
        self.cells: dict[tuple[int, int], Cell] = {}

    def add(self, rank: int, step: int, seconds: float) -> None:
        """Take the time of a step of a rank."""
        while step // self.width >= MOST_COLUMNS:
            self._widen()
        key = (rank, step // self.width)
        self.cells[key] = _joined(self.cells.get(key), Cell(1, seconds, seconds))

    def means(self) -> dict[int, float]:
        """The mean time of a step of each rank."""
        sums: dict[int, Cell] = {}
        for (rank, _), cell in self.cells.items():
            sums[rank] = _joined(sums.get(rank), cell)
        return {rank: cell.seconds / cell.steps for rank, cell in sums.items()}

    def _widen(self) -> None:
        self.width *= 2
        wider: dict[tuple[int, int], Cell] = {}
        for (rank, span), cell in self.cells.items():
            key = (rank, span // 2)
            wider[key] = _joined(wider.get(key), cell)
        self.cells = wider


def _joined(one: Cell | None, other: Cell) -> Cell:
    if one is None:
        return other
    return Cell(one.steps + other.steps, one.seconds + other.seconds, max(one.longest, other.longest))
