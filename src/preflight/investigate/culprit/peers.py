"""What the others say: ranks that are named as missing, behind or gone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from preflight.investigate.case.case import Event
from preflight.investigate.culprit.vote import STORE_REFUSED, STORE_WAITS, Scene, Vote, alone_with_the_store

OF_A_SILENT_KEEPER = 0.75
"""It may be there, at an address at which the others do not look for it."""


def votes(scene: Scene) -> Iterator[Vote]:
    """Vote for a rank by the share of the accusers that name it, each of them counted once."""
    accusers: dict[int, dict[int | None, Event]] = {}
    kept = _store_waits(scene) or _failed_by_itself(scene)
    counting = _counting_too_many(scene)
    answering = _answering(scene)
    for event in scene.failing:
        for rank in _handed_on(event, answering):
            if event.rank in counting:
                continue
            # Who keeps the store and waits in it for those who do not come has not published its own address yet; where
            # somebody else ended by a fault of its own, others look for the address of rank 0 as the first of all.
            if rank != event.rank and not (kept and rank == 0 and event.id == "network.store-timeout"):
                accusers.setdefault(rank, {}).setdefault(event.rank, event)
    yield from _store(scene)
    yield from _lost_nodes(scene)
    yield from _not_joined(scene)
    yield from _not_in_group(scene)
    for rank, event in counting.items():
        yield Vote(kind="accused", rank=rank, quotes=(scene.case.quote(event.hit),),
                   text=f"waits for rank {event.accused[0]}, and there are {scene.case.people.world} ranks: it counts more")  # fmt: skip
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


def _answering(scene: Scene) -> dict[int, tuple[int, ...]]:
    """Return the ranks that answer the others in a watched barrier, each with those that it says did not come.

    It is the first rank that does so, where the line does not tell who says it.
    """
    return {
        event.rank if event.rank is not None else 0: event.accused
        for event in scene.failing
        if event.id == "network.monitored-barrier"
    }


def _handed_on(event: Event, answering: Mapping[int, tuple[int, ...]]) -> list[int]:
    """Return whom an event accuses: instead of one that answered in a watched barrier and gave up, those for whom it did."""
    if event.id != "network.monitored-barrier-peer":
        return list(event.accused)
    return list(dict.fromkeys(one for rank in event.accused for one in answering.get(rank, (rank,))))


def _counting_too_many(scene: Scene) -> dict[int, Event]:
    """Return the ranks that wait for one that does not exist: all ranks that there are speak, and most of them look for no other."""
    world, people = scene.case.reading.world_size, scene.case.people
    if world is None or not people.seen >= set(range(world)):
        return {}
    found = {
        event.rank: event
        for event in scene.failing
        if event.rank is not None and event.accused and min(event.accused) >= world
    }
    return found if 2 * len(found) < world else {}


def _store_waits(scene: Scene) -> bool:
    """Return whether the store tells that it waited for ranks that did not come."""
    return any(event.id == STORE_WAITS for event in scene.failing)


def _failed_by_itself(scene: Scene) -> bool:
    """Return whether a rank or a node other than rank 0 names a cause of its own, which no waiting for others is."""
    return any(
        event.role == "root" and event.specific and not event.accused and event.category != "network"
        and event.rank != 0 and (event.rank is not None or event.node is not None)
        for event in scene.failing
    )  # fmt: skip


def _not_joined(scene: Scene) -> Iterator[Vote]:
    """Vote for the ranks of which nothing is seen, or that could not reach the store, where it tells that as many did not come."""
    people, case = scene.case.people, scene.case
    announced = {
        rank
        for event in case.events
        if event.signature is not None
        and event.signature.announces
        and isinstance(rank := event.hit.fields.get(event.signature.announces), int)
    }
    for event in scene.failing:
        joined, expected = event.hit.fields.get("joined"), event.hit.fields.get("expected")
        if not isinstance(joined, int) or not isinstance(expected, int) or people.world != expected:
            continue
        outside = {one.rank for one in scene.failing if one.id == "network.store-refused" and one.rank is not None}
        apart = len(outside) == expected - joined
        missing = sorted(outside if apart else set(range(expected)) - people.seen - announced)
        if joined < expected and len(missing) == expected - joined:
            here = "could not reach the store, which others reached" if apart else "and these are known"
            for rank in missing:
                yield Vote(kind="accused", rank=rank, strength=1.0 / len(missing), shared=len(missing) > 1,
                           text=f"did not come to the start: {joined} of {expected} had, {here}",
                           quotes=(case.quote(event.hit),))  # fmt: skip
            return


def _not_in_group(scene: Scene) -> Iterator[Vote]:
    """Vote for the rank whose place in a group stays empty, where those that wait for it show between whom it must be.

    What a group of some ranks looks for in the store bears the place of a member among the others, who are in the order of
    their ranks (``/default_pg/0//GROUP//cpu//0/PLACE``, torch with gloo).
    """
    waiting: dict[tuple[int, int], dict[int, Event]] = {}
    for event in scene.failing:
        group, place = event.hit.fields.get("group"), event.hit.fields.get("member")
        if isinstance(group, int) and isinstance(place, int) and event.rank is not None:
            waiting.setdefault((group, place), {}).setdefault(event.rank, event)
    everybody = scene.case.people.ranks()
    for (_, place), by in waiting.items():
        members = sorted(by)
        if place > len(members):
            continue  # others who wait say nothing
        low = members[place - 1] if place else -1
        high = members[place] if place < len(members) else len(everybody)
        between = [rank for rank in everybody if low < rank < high]
        for rank in between:
            yield Vote(kind="accused", rank=rank, strength=1.0 / len(between), shared=len(between) > 1,
                       text=f"is missing in a group of some ranks: {len(members)} of it wait for its place {place}",
                       quotes=(scene.case.quote(by[members[0]].hit),))  # fmt: skip


def _lost_nodes(scene: Scene) -> Iterator[Vote]:
    """Vote for the nodes that a launcher says it lost."""
    told: dict[str, Event] = {}
    for event in scene.failing:
        if event.signature is not None and event.signature.points_to == "node":
            node = event.hit.fields.get("node")
            if isinstance(node, str):
                told.setdefault(node, event)
    for node, event in told.items():
        yield Vote(kind="accused", node=node, strength=1.0 / len(told), quotes=(scene.case.quote(event.hit),),
                   text="is named by the launcher as the node that it lost")  # fmt: skip


def _store(scene: Scene) -> Iterator[Vote]:
    """Vote for the node of rank 0, which keeps the store, where others find the store gone and it was not stopped.

    Where it gave up for those who did not come, it says so, and the store went with it.
    """
    people = scene.case.people
    home = people.node_of.get(0)
    told = [event for event in scene.failing if event.id == "network.store-gone"]
    others = [event for event in told if event.node is not None and event.node != home]
    yield from _agent(scene, told)
    if alone_with_the_store(scene):
        refused = next(event for event in scene.roots() if event.id == STORE_REFUSED)
        yield Vote(kind="accused", rank=0, strength=OF_A_SILENT_KEEPER, quotes=(scene.case.quote(refused.hit),),
                   text="keeps the store, which no other rank could reach, and says nothing of a failure")  # fmt: skip
    if home is None or not others or any(event.node == home for event in told) or _store_waits(scene):
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
    complaining = {event.hit.file for event in scene.failing if event.role != "root"}
    speaking = {node for node, file in agents.items() if file in complaining}
    gone = [event for event in told if event.node in agents and event.rank is None]
    quiet = [node for node in agents if node not in speaking and people.of_node(node)]
    if gone and len(agents) > 1 and len(quiet) == 1 and len(speaking) == len(agents) - 1:
        text = "its agent says nothing at the end, while those of other nodes find the store gone"
        yield Vote(kind="accused", node=quiet[0], text=text, quotes=(scene.case.quote(gone[0].hit),))
