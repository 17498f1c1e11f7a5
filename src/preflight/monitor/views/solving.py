"""Sums with unknown shares: which shares make numbers add up to others, and how far off they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

_SINGULAR = 1e-9
"""A direction that is left of a column, as a share of it, below which the column says nothing of its own."""


class Fit(NamedTuple):
    """Shares, and how far the worst sum is off."""

    shares: list[float]
    off: float


def fitted(rows: Sequence[Sequence[float]], sums: Sequence[float]) -> Fit | None:
    """Return the shares with which each row adds up to its number, by least squares; None where they are not determined.

    Columns are made orthogonal one after the other, twice, so that columns that nearly say the same lose no digits.
    """
    width = len(rows[0])
    columns = [[row[at] for row in rows] for at in range(width)]
    basis: list[list[float]] = []
    upper = [[0.0] * width for _ in range(width)]
    for at, column in enumerate(columns):
        left, length = list(column), _dot(column, column) ** 0.5
        for _ in range(2):
            for number, one in enumerate(basis):
                share = _dot(one, left)
                upper[number][at] += share
                left = [value - share * part for value, part in zip(left, one, strict=True)]
        rest = _dot(left, left) ** 0.5
        if not rest > _SINGULAR * length:
            return None
        upper[at][at] = rest
        basis.append([value / rest for value in left])
    shares = [0.0] * width
    for at in reversed(range(width)):
        known = sum(upper[at][other] * shares[other] for other in range(at + 1, width))
        shares[at] = (_dot(basis[at], sums) - known) / upper[at][at]
    off = max(abs(_dot(row, shares) - total) for row, total in zip(rows, sums, strict=True))
    return Fit(shares, off)


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))
