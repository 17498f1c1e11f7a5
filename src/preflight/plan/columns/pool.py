"""The quickest layouts that a search met, and those that no quicker one beats in memory."""

from __future__ import annotations

from typing import Any

import numpy

# Bins of memory, for each of which the quickest layout that needs no more is known: what is slower is not on the front.
_BINS = 256


class Pool:
    """A bounded collection of layouts; arithmetic on columns only.

    Attributes:
        table: One row for each layout: seconds for a sample, bytes on the device, variant, degrees.
    """

    def __init__(self, keep: int, degrees: int) -> None:
        """Start empty.

        Args:
            keep: How many of the quickest to keep.
            degrees: Columns of a layout's degrees.
        """
        self.table = numpy.empty((0, 3 + degrees))
        self._keep, self._waiting = keep, 0
        self._parts: list[Any] = []
        self._limit = numpy.inf
        self._quickest = numpy.full(_BINS, numpy.inf)
        self._unit: float | None = None

    def add(self, variant: int, seconds: Any, device: Any, fits: Any, block: Any) -> None:
        """Take the layouts of a rectangle that fit, as far as they are quick or need little memory."""
        if self._unit is None:
            self._unit = float(device.max()) / 4 / _BINS
        place = numpy.minimum(device / self._unit, _BINS - 1).astype(numpy.int64)
        good = fits & ((seconds < self._limit) | (seconds < self._quickest[place]))
        rows, columns = good.nonzero()
        if not rows.size:
            return
        times, sizes = seconds[rows, columns], device[rows, columns]
        if rows.size > self._keep:
            order = numpy.argpartition(times, self._keep)[: self._keep]
            order = numpy.union1d(order, _front(times, sizes))
            rows, columns, times, sizes = rows[order], columns[order], times[order], sizes[order]
        degrees = block.table(rows, columns)
        self._parts.append(numpy.column_stack([times, sizes, numpy.full(rows.size, float(variant)), degrees]))
        self._waiting += rows.size
        if self._waiting > 2 * self._keep:
            self._merge()

    def _merge(self) -> None:
        """Keep the quickest, and the front."""
        table = numpy.concatenate([self.table, *self._parts])
        self._parts, self._waiting = [], 0
        if len(table) > self._keep:
            order = numpy.argpartition(table[:, 0], self._keep)[: self._keep]
            self._limit = float(table[order, 0].max())
            table = table[numpy.union1d(order, _front(table[:, 0], table[:, 1]))]
        self.table = table
        if self._unit:
            # A layout is worth a look when none that is surely smaller (a bin below) is as quick.
            place = numpy.minimum(table[:, 1] / self._unit, _BINS - 1).astype(numpy.int64) + 1
            best = numpy.full(_BINS + 1, numpy.inf)
            numpy.minimum.at(best, place, table[:, 0])
            self._quickest = numpy.minimum.accumulate(best)[:_BINS]

    def settled(self) -> Pool:
        """Return this pool with its table in order, the quickest first; of equals the smaller, then the simpler."""
        self._merge()
        self.table = self.table[numpy.lexsort((*self.table[:, :0:-1].T, numpy.float32(self.table[:, 0])))]
        return self

    def front(self) -> Any:
        """Return the rows that no other beats in both time and memory, the quickest first."""
        return self.table[_front(self.table[:, 0], self.table[:, 1])]


def _front(times: Any, sizes: Any) -> Any:
    """Return the indices of what no other beats in both, the quickest first."""
    order = numpy.lexsort((sizes, times))
    least = numpy.minimum.accumulate(sizes[order])
    return order[numpy.concatenate([[True], sizes[order][1:] < least[:-1]])] if len(order) else order
