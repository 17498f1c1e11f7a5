"""Ranks that name the same cause at the same time; they have it in common, and none of them is the first."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set

import msgspec

from preflight.investigate.case.case import Event
from preflight.investigate.culprit.vote import STORE_REFUSED, Scene, best_roots, compares

_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+")
# Ranks do not come to the same place in the same moment: they import, open files and wait for their turn.
TOGETHER = 3.0
# One that is ahead of all others by so many times their spread, and by half of the above, was the first.
AHEAD = 3.0
NEARLY_ALL = 0.9
_WITHIN = 80
"""Lines by which tracebacks that are written into each other begin behind one another."""
_SAID_BY_PROCESSES = ("preemption.worker-asked", "preemption.submitit")
"""What of the words about an end from outside the processes themselves say."""
ONE_RUN = 120.0
"""Seconds by which ranks may come to the same trouble one after the other."""
_NOT_CAUGHT = ("oom", "environment", "data", "checkpoint", "compile")
"""What a rank does not catch from another one that has it, unlike values, shapes and broken connections."""


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
        if not compares(event):
            alike.setdefault(_key(event), {})[rank] = event
    people = scene.case.people
    found = []
    for by in alike.values():
        events = sorted(by.values(), key=lambda event: event.time if event.time is not None else float("inf"))
        if len(by) < 2 or not (together(events) or _each_its_own(events, scene)):
            continue
        ended = all(event.id.startswith("exit.") for event in events)
        # Of those who are told of only because they ended, nobody speaks: the others are those that must be there.
        share = len(by) / max(len(people.ranks()) if ended else len(people.seen), 1)
        nodes = {people.node_of.get(rank) for rank in by}
        whole = [node for node in nodes if node is not None and set(people.of_node(node)) <= set(by)]
        whole_nodes = len(whole) == len(nodes) and len(people.nodes) > len(nodes)
        # Where another node has a log in which nobody names it, it is not everybody's, though only these ranks speak.
        everybody = share >= NEARLY_ALL and not (whole_nodes and _others_tell(scene, nodes))
        alone = not everybody and whole_nodes
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


def _others_tell(scene: Scene, nodes: Set[str | None]) -> bool:
    """Return whether a node beside these has a file of its own that tells of a failure."""
    told = {scene.case.people.file_node(event.hit.file) for event in scene.failing}
    return bool(told - nodes - {None})


def _each_its_own(events: Sequence[Event], scene: Scene) -> bool:
    """Return whether all ranks name a cause that none of them has from another one: then it is common, whoever was faster."""
    first = events[0]
    # The first rank keeps the store: where it cannot reach it either, it is that of none of them.
    of_nobody = first.id == STORE_REFUSED and any(event.rank == 0 for event in events)
    if (
        not first.specific
        or not (first.category in _NOT_CAUGHT or of_nobody)
        or len(events) < NEARLY_ALL * len(scene.case.people.ranks())
    ):
        return False
    times = [event.time for event in events if event.time is not None]
    return len(times) < 2 or times[-1] - times[0] <= ONE_RUN


def _nameless(scene: Scene) -> list[Group]:
    """Return a group for a cause that one file without ranks holds as often as there are ranks."""
    counts: dict[tuple[int, str], list[Event]] = {}
    for event in scene.roots():
        # A traceback shows the line of the program that raises, with the same words.
        echoed = event.hit.text.startswith("    ")
        by_nobody = event.id.startswith(("series.", "flight.", "elastic.")) or _of_a_scheduler(event)
        if event.rank is None and not echoed and not by_nobody:
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
        for (file, _), events in counts.items()
        if (several := max(world, writers_of(scene, file))) > 1 and len(events) >= NEARLY_ALL * several
    ]


def _of_a_scheduler(event: Event) -> bool:
    """Return whether a scheduler or a cloud says it of a job: however often, no process does."""
    return event.id.startswith("preemption.") and event.id not in _SAID_BY_PROCESSES


def writers_of(scene: Scene, file: int) -> int:
    """Return how many processes write tracebacks into each other in a file without ranks, as far as it shows.

    One process ends a traceback before it begins another: where several begin before the first has come to its exception,
    there are as many processes.
    """
    most, begun, last = 1, 0, 0
    for one in scene.case.raised:
        if one.hit.file != file or one.hit.who.rank is not None or one.begins is None:
            continue
        begun = begun + 1 if begun and one.begins - last <= _WITHIN else 1
        most, last = max(most, begun), one.begins
        if one.exception:
            begun = 0
    return most


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
