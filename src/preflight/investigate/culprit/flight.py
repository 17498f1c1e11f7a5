"""What the Flight Recorder holds: who is behind, who made another call than the others, at whom the waiting ends."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.investigate.culprit.vote import Scene, Vote
from preflight.investigate.recorder import recorded


def votes(scene: Scene) -> Iterator[Vote]:
    """Vote as the dumps and the counters of the watchdogs do; their weights are logarithms of likelihood ratios."""
    evidence = recorded(scene.case)
    for one in evidence.ranks if evidence is not None else ():
        for reason in one.reasons:
            yield Vote(kind="flight", rank=one.rank, strength=reason.weight, text=reason.text, quotes=reason.quotes)
