"""Errors of cards that come again: on one card it is the card, on many it is the program that runs on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from preflight.investigate.culprit.vote import Scene
from preflight.investigate.observations.observation import Observation
from preflight.vocabulary.log import NodeEvent

# 45 and 63 follow other errors, on whichever card.
_FOLLOWS = frozenset({43, 45, 63})
_APART = 300.0


def observe(scene: Scene) -> Iterator[Observation]:
    """Count occasions (errors of a card at least five minutes apart, or in different attempts) by card."""
    occasions = Counter(_occasions(scene.case.reading.events))
    total, cards = sum(occasions.values()), len(occasions)
    if total < 2:
        return
    (node, device), most = occasions.most_common(1)[0]
    if cards == 1:
        where = f"{device}{f' on {node}' if node else ''}"
        text = f"the errors came {most} times, each time on the same card ({where})"
        yield Observation(text=text, odds={"device-fault": 1.0 + 0.7 * min(most, 4), "illegal-access": -1.5})
    elif most == 1 and cards >= 3:
        text = f"the errors came on {cards} different cards, once on each"
        yield Observation(text=text, odds={"illegal-access": 2.0, "index-out-of-range": 1.0, "device-fault": -2.0})


def _occasions(events: tuple[NodeEvent, ...]) -> Iterator[tuple[str | None, str]]:
    last: dict[tuple[str | None, str], float | None] = {}
    for event in events:
        if event.kind != "xid" or event.code in _FOLLOWS or event.device is None:
            continue
        key = (event.node, event.device)
        time = event.hit.time
        before = last.get(key)
        if key not in last or (time is not None and before is not None and time - before > _APART):
            yield key
        last[key] = time
