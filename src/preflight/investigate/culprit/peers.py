"""What the others say: ranks that are named as missing, behind or gone."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.investigate.case import Event
from preflight.investigate.culprit.vote import Scene, Vote


def votes(scene: Scene) -> Iterator[Vote]:
    """Vote for a rank by the share of the accusers that name it, each of them counted once."""
    accusers: dict[int, dict[int | None, Event]] = {}
    for event in scene.failing:
        for rank in event.accused:
            if rank != event.rank:
                accusers.setdefault(rank, {}).setdefault(event.rank, event)
    everybody = {rank for by in accusers.values() for rank in by}
    for rank, by in accusers.items():
        first = next(iter(by.values()))
        named = f"{len(by)} rank{'s' if len(by) > 1 else ''}"
        yield Vote(
            kind="accused",
            rank=rank,
            strength=len(by) / len(everybody),
            text=f"is named by {named} as the one that is missing",
            quotes=(scene.case.quote(first.hit),),
        )
