"""What the processes were doing: who does something else than most, or does not take part in what most wait in."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.investigate.culprit.vote import Scene, Vote
from preflight.investigate.recorder import printed, stacked


def votes(scene: Scene) -> Iterator[Vote]:
    """Vote as the stacks do; their weights are logarithms of likelihood ratios.

    What programs print into their logs may be of any time: it counts where ranks waited in vain, or print nothing else after it.
    """
    hung = scene.waited or any(event.id == "stacks.waiting" for event in scene.failing)
    evidence = stacked(scene.case) or (printed(scene.case) if hung else None)
    for one in evidence.ranks if evidence is not None else ():
        for reason in one.reasons:
            yield Vote(kind="stacks", rank=one.rank, strength=reason.weight, text=reason.text, quotes=reason.quotes)
