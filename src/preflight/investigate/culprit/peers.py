"""What the others say: ranks that are named as missing, behind or gone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from preflight.investigate.case import Event
from preflight.investigate.culprit.vote import Scene, Vote


def votes(scene: Scene) -> Iterator[Vote]:
    """Vote for a rank by the share of the accusers that name it, each of them counted once."""
    accusers: dict[int, dict[int | None, Event]] = {}
    for event in scene.failing:
        for rank in event.accused:
            if rank != event.rank:
                accusers.setdefault(rank, {}).setdefault(event.rank, event)
    yield from _store(scene)
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


def _store(scene: Scene) -> Iterator[Vote]:
    """Vote for the node of rank 0, which keeps the store, where others find the store gone and it was not stopped."""
    people = scene.case.people
    home = people.node_of.get(0)
    told = [event for event in scene.failing if event.id == "network.store-gone"]
    others = [event for event in told if event.node is not None and event.node != home]
    yield from _agent(scene, told)
    if home is None or not others or any(event.node == home for event in told):
        return
    text = "keeps the store, which ranks of other nodes find gone"
    yield Vote(kind="accused", node=home, strength=0.8, text=text, quotes=(scene.case.quote(others[0].hit),))


def _agent(scene: Scene, told: Sequence[Event]) -> Iterator[Vote]:
    """Vote for the one node whose agent says nothing at its end, where those of all others find the store, or the agents, gone."""
    people, reading = scene.case.people, scene.case.reading
    agents = {
        one.who.node: one.index
        for one in reading.files
        if one.kind == "text" and one.who.node is not None and one.who.rank is None and one.who.local_rank is None
    }
    speaking = {
        node
        for node, file in agents.items()
        if any(event.hit.file == file and event.role != "root" for event in scene.failing)
    }
    gone = [event for event in told if event.node in agents and event.rank is None]
    quiet = [node for node in agents if node not in speaking and people.of_node(node)]
    if gone and len(agents) > 1 and len(quiet) == 1 and len(speaking) == len(agents) - 1:
        text = "its agent says nothing at the end, while those of other nodes find the store gone"
        yield Vote(kind="accused", node=quiet[0], text=text, quotes=(scene.case.quote(gone[0].hit),))
