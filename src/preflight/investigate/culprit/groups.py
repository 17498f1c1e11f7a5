"""Ranks that name the same cause at the same time; they have it in common, and none of them is the first."""

from __future__ import annotations

import re

import msgspec

from preflight.investigate.case import Event
from preflight.investigate.culprit.vote import Scene, best_roots

_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+")
# Ranks do not come to the same place in the same moment: they import, open files and wait for their turn.
TOGETHER = 3.0
# One that is ahead of all others by so many times their spread, and by half of the above, was the first.
AHEAD = 3.0
NEARLY_ALL = 0.9


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Ranks with the same cause.

    Attributes:
        events: The first of each rank, in the order of time.
        everybody: All ranks that speak are among them.
        nodes: Where it is not everybody: nodes of which all ranks are among them, if they hold all of the group.
        share: Of the ranks that speak.
    """

    title: str
    events: tuple[Event, ...]
    ranks: tuple[int, ...]
    everybody: bool
    nodes: tuple[str, ...]
    share: float


def groups_of(scene: Scene) -> tuple[Group, ...]:
    """Return the groups of two ranks and more that name the same cause at the same time."""
    alike: dict[str, dict[int, Event]] = {}
    for rank, event in best_roots(scene).items():
        if "theirs" not in event.hit.fields:
            alike.setdefault(_key(event), {})[rank] = event
    people = scene.case.people
    found = []
    for by in alike.values():
        events = sorted(by.values(), key=lambda event: event.time if event.time is not None else float("inf"))
        if len(by) < 2 or not together(events):
            continue
        ended = all(event.id.startswith("exit.") for event in events)
        # Of those who are told of only because they ended, nobody speaks: the others are those that must be there.
        share = len(by) / max(len(people.ranks()) if ended else len(people.seen), 1)
        nodes = {people.node_of.get(rank) for rank in by}
        whole = [node for node in nodes if node is not None and set(people.of_node(node)) <= set(by)]
        everybody = share >= NEARLY_ALL
        alone = not everybody and len(whole) == len(nodes) and len(people.nodes) > len(nodes)
        found.append(
            Group(
                title=events[0].title,
                events=tuple(events),
                ranks=tuple(sorted(by)),
                everybody=everybody,
                nodes=tuple(sorted(whole)) if alone else (),
                share=share,
            )
        )
    return (*found, *_nameless(scene))


def _nameless(scene: Scene) -> list[Group]:
    """Return a group for a cause that one file without ranks holds as often as there are ranks."""
    counts: dict[tuple[int, str], list[Event]] = {}
    for event in scene.roots():
        if event.rank is None and not event.id.startswith(("series.", "flight.")):
            counts.setdefault((event.hit.file, _key(event)), []).append(event)
    world = scene.case.people.world or 0
    return [
        Group(
            title=events[0].title,
            events=tuple(events),
            ranks=scene.case.people.ranks(),
            everybody=True,
            nodes=(),
            share=1.0,
        )
        for events in counts.values()
        if world > 1 and len(events) >= NEARLY_ALL * world
    ]


def together(events: list[Event]) -> bool:
    """Return whether events in the order of time are one event as far as clocks can tell, with nobody ahead of the rest."""
    if events[0].category == "numerical":
        steps = sorted(event.step for event in events if event.step is not None)
        if len(steps) == len(events) > 1 and steps[0] < steps[1]:
            return False
    times = [event.time for event in events if event.time is not None]
    if len(times) < 2:
        return True
    gap = times[1] - times[0] - events[0].error - events[1].error
    return gap <= TOGETHER and gap <= max(AHEAD * (times[-1] - times[1]), TOGETHER / 2)


def _key(event: Event) -> str:
    return event.id if event.specific else _NUMBERS.sub("#", event.title)
