"""Ranks over steps or time: how much happened on which rank, when."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from preflight.report.pictures.axis import percent

MOST_ROWS = 64
SHADES = 5


def heatmap(
    cells: Iterable[tuple[int, float, int]],
    *,
    ranks: Iterable[int],
    first: float,
    last: float,
    width: float,
    ticks: list[dict[str, Any]],
    title: Callable[[int, float, int], str],
    accused: tuple[int, ...] = (),
) -> dict[str, Any] | None:
    """Return the picture: a row for each rank, a cell for each (rank, place, count); None without any.

    Args:
        cells: What happened.
        ranks: All ranks; of many, the accused are shown and those with the largest counts.
        first: Where the axis begins.
        last: Where it ends.
        width: How long a cell is on it.
        ticks: Of the axis.
        title: What a cell says.
        accused: Ranks whose names stand out.
    """
    told = [cell for cell in cells if cell[2] > 0]
    every = sorted({*ranks, *(rank for rank, _, _ in told)})
    if not told or last <= first:
        return None
    counts: dict[int, int] = {}
    for rank, _, count in told:
        counts[rank] = counts.get(rank, 0) + count
    order = sorted(every, key=lambda rank: (rank not in accused, -counts.get(rank, 0), rank))
    shown = sorted(order[:MOST_ROWS])
    place = {rank: at for at, rank in enumerate(shown)}
    most, row = max(count for _, _, count in told), 14 if len(shown) > 16 else 20
    span = last - first
    return {
        "cells": [
            {
                "x": percent(at - first, span),
                "width": round(max(100 * width / span, 0.3), 3),
                "y": place[rank] * row,
                "shade": shade(count, most),
                "title": title(rank, at, count),
            }
            for rank, at, count in told
            if rank in place
        ],
        "rows": [{"name": f"rank {rank}", "y": at * row, "culprit": rank in accused} for rank, at in place.items()],
        "row": row - 2,
        "height": row * len(shown),
        "left_out": len(every) - len(shown),
        "ticks": ticks,
        "scale": [{"shade": step, "name": name} for step, name in _scale(most)],
    }


def shade(count: int, most: int) -> int:
    """Return 1 to ``SHADES`` by the share of the largest count."""
    return max(1, -(-SHADES * count // most))


def _scale(most: int) -> list[tuple[int, str]]:
    """Return the shades that can occur with the counts that each stands for."""
    found: dict[int, list[int]] = {}
    for step in range(1, SHADES + 1):
        low, high = (step - 1) * most // SHADES + 1, step * most // SHADES
        if low <= high:
            found[step] = [low, high]
    return [(step, f"{low:,}" if low == high else f"{low:,} to {high:,}") for step, (low, high) in found.items()]
