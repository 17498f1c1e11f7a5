"""What the kernel, the driver or the scheduler say: they stand outside, and name a card, a process or a node."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.investigate.culprit.vote import Scene, Vote

_NOT_ANSWERING = ("node.ras-incomplete", "node.ras-dead")


def votes(scene: Scene) -> Iterator[Vote]:
    """Vote for the rank whose card or process is named; where only the node is known, for its ranks."""
    told: set[tuple[object, int | None, str | None]] = set()
    for event in scene.failing:
        if event.role != "confirmation" or (event.category, event.rank, event.node) in told:
            continue
        told.add((event.category, event.rank, event.node))
        quotes = (scene.case.quote(event.hit),)
        if event.node is not None and event.id in _NOT_ANSWERING:
            text = f"NCCL names it as the one that does not answer: {event.hit.text.strip()}"
            yield Vote(kind="not-answering", rank=event.rank, node=event.node, text=text, quotes=quotes)
        elif event.rank is not None:
            text = f"the node itself confirms it for this rank: {event.title}"
            yield Vote(kind="kernel-rank", rank=event.rank, text=text, quotes=quotes)
        elif event.node is not None and (len(scene.case.people.nodes) > 1 or not scene.case.people.ranks()):
            yield Vote(kind="kernel-node", node=event.node, text=f"its node reports: {event.title}", quotes=quotes)
