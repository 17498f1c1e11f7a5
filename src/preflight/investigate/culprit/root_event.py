"""A rank that names a cause itself, and the one that did so first."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.investigate.case import Event
from preflight.investigate.culprit.vote import Scene, Vote, before


def votes(scene: Scene) -> Iterator[Vote]:
    """Vote for each rank with a root event, the surest one of each, and for the first of them in corrected time."""
    case = scene.case
    best: dict[int, Event] = {}
    for event in scene.roots():
        if event.rank is not None and (event.rank not in best or event.specific > best[event.rank].specific):
            best[event.rank] = event
    for rank, event in best.items():
        kind = "root-event" if event.specific else "exception"
        yield Vote(kind=kind, rank=rank, text=f"names a cause itself: {event.title}", quotes=(case.quote(event.hit),))
    own = [event for event in scene.failing if event.rank is not None and event.role in ("root", "cascade")]
    if len({event.rank for event in own}) < 2:
        return
    firsts: dict[int | None, Event] = {}
    for event in own:
        firsts.setdefault(event.rank, event)
        if event.time is not None and (firsts[event.rank].time or float("inf")) > event.time:
            firsts[event.rank] = event
    ahead = [one for one in firsts.values() if not any(before(other, one) for other in firsts.values())]
    timed = [one for one in firsts.values() if one.time is not None]
    if len(timed) < len(firsts) or len(ahead) == len(firsts):
        return
    for one in ahead:
        yield Vote(
            kind="first-in-time",
            rank=one.rank,
            strength=1.0 / len(ahead),
            text="is the first to say that something is wrong, by corrected clocks"
            + ("" if len(ahead) == 1 else f" (tied with {len(ahead) - 1} others within the uncertainty)"),
            quotes=(case.quote(one.hit),),
        )
