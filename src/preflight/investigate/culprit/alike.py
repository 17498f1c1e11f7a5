"""A common cause: the same complaint on all ranks at the same time has no culprit among them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from preflight.investigate.case import Event
from preflight.investigate.culprit.vote import Scene, Vote, before

_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+")


def votes(scene: Scene) -> Iterator[Vote]:
    """Vote for nobody where all ranks that speak name the same cause and none of them is clearly the first."""
    alike: dict[str, dict[int, Event]] = {}
    for event in scene.roots():
        if event.rank is not None:
            alike.setdefault(_key(event), {}).setdefault(event.rank, event)
    everybody = set(scene.case.people.seen)
    for by in alike.values():
        if len(by) < 2 or len(by) < 0.9 * len(everybody):
            continue
        firsts = sorted(by.values(), key=lambda event: event.time if event.time is not None else float("inf"))
        if before(firsts[0], firsts[-1]) and _gap(firsts) > scene.window:
            continue
        yield Vote(
            kind="common-cause",
            strength=len(by) / len(everybody),
            text=f"all {len(by)} ranks name the same cause at the same time: {firsts[0].title}",
            quotes=tuple(scene.case.quote(event.hit) for event in firsts[:2]),
        )


def _gap(firsts: list[Event]) -> float:
    """Return by how much the first of several is ahead of the second."""
    one, other = firsts[0].time, firsts[1].time
    return other - one if one is not None and other is not None else 0.0


def _key(event: Event) -> str:
    return event.id if event.specific else _NUMBERS.sub("#", event.title)
