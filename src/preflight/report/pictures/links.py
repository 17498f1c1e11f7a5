"""Rank by rank: how long a block takes between two of them, beside what is usual."""

from __future__ import annotations

from statistics import median
from typing import Any

from preflight.report.pictures.heatmap import MOST_ROWS
from preflight.vocabulary.live import Measurement
from preflight.vocabulary.quantity import format_seconds

_STEPS = ((1.5, "usual, up to 1.5 times"), (3.0, "up to 3 times"), (10.0, "up to 10 times"), (100.0, "up to 100 times"))
_BEYOND = "more than that, or no answer"
_LEAST = 3
"""Ranks: between two there is one link, and nothing to compare it with."""


def links_pictures(measured: tuple[Measurement, ...]) -> list[dict[str, Any]]:
    """Return a picture for each size of block, with a row and a column for each rank.

    A cell is as dark as its time is above the median of all links for that block.
    """
    sizes: dict[str, list[Measurement]] = {}
    for one in measured:
        head, _, size = one.name.partition(" ")[2].partition(" ")
        if one.probe == "topology" and one.rank is not None and one.peer is not None and head:
            sizes.setdefault(size, []).append(one)
    return [picture for size, links in sizes.items() if (picture := _picture(size, links)) is not None]


def _picture(size: str, links: list[Measurement]) -> dict[str, Any] | None:
    times = {(one.rank or 0, one.peer or 0): one.value if one.outcome == "done" else None for one in links}
    known = [time for time in times.values() if time is not None and time > 0]
    ranks = sorted({rank for pair in times for rank in pair})
    if len(ranks) < _LEAST or not known:
        return None
    usual = median(known)
    worst = sorted(ranks, key=lambda rank: -max(_ratio(time, usual) for pair, time in times.items() if rank in pair))
    shown = sorted(worst[:MOST_ROWS])
    place = {rank: at for at, rank in enumerate(shown)}
    width, row = 100 / len(shown), 14 if len(shown) > 16 else 20
    cells = []
    for (one, other), time in times.items():
        if one not in place or other not in place:
            continue
        said = format_seconds(time) if time is not None else "no answer"
        for rank, peer in ((one, other), (other, one)):
            cells.append(
                {"x": round(place[peer] * width, 3), "width": round(width, 3), "y": place[rank] * row,
                 "shade": _shade(_ratio(time, usual)), "title": f"ranks {rank} and {peer}: {said}"}
            )  # fmt: skip
    every = -(-len(shown) // 16)
    return {
        "name": f"{size or 'a block'}, usually {format_seconds(usual)}",
        "cells": cells,
        "rows": [{"name": f"rank {rank}", "y": at * row, "culprit": False} for rank, at in place.items()],
        "row": row - 2,
        "height": row * len(shown),
        "left_out": len(ranks) - len(shown),
        "ticks": [
            {"at": round((at + 0.5) * width, 3), "name": str(rank)} for rank, at in place.items() if at % every == 0
        ],
        "scale": [{"shade": step, "name": name} for step, name in enumerate((*(name for _, name in _STEPS), _BEYOND))],
        "unit": "the rank at the other end",
    }


def _ratio(time: float | None, usual: float) -> float:
    return time / usual if time is not None else float("inf")


def _shade(ratio: float) -> int:
    return next((step for step, (most, _) in enumerate(_STEPS) if ratio <= most), len(_STEPS))
