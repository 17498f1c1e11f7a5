"""What the kernel, the driver or the scheduler say: they stand outside, and name a card, a process or a node."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.investigate.case.case import Event
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
    if not scene.case.people.ranks():
        yield from _ended_on(scene)


def _ended_on(scene: Scene) -> Iterator[Vote]:
    """Vote for the one machine on which a launcher saw a process end with an error, where nothing tells a rank."""
    found: dict[str, Event] = {}
    for event in scene.failing:
        if event.id.startswith("exit.") and event.node is not None and event.role != "teardown":
            found.setdefault(event.node, event)
    if len(found) == 1:
        node, event = found.popitem()
        yield Vote(kind="kernel-node", node=node, text=f"a process ended on it: {event.title}",
                   quotes=(scene.case.quote(event.hit),))  # fmt: skip
