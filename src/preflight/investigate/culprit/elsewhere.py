"""Where the ranks stood when they gave up waiting: whoever stood at another line of the program than most did not come to theirs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from preflight.investigate.case.case import Event
from preflight.investigate.culprit.vote import Scene, Vote, from_dump, is_wait
from preflight.investigate.flight.frames import own_frame
from preflight.vocabulary.log import Frame

_GROUP = re.compile(r"\b(?:process_)?group ?= ?([\w.\[\]()]+)")
FEWEST = 3
MOST_AT = 2 / 3
"""Where fewer stand at one place there are several groups of ranks, as stages of a pipeline are."""


def votes(scene: Scene) -> Iterator[Vote]:
    """Vote for the one rank that stood elsewhere, where most stood at the same line.

    Where their calls name different groups of ranks, each may have come to its own, and whoever is missing in one of them is not told.
    """
    frames = _frames(scene)
    stood = places(scene)
    waited = {rank for rank, (event, _) in stood.items() if is_wait(event)}
    if len(stood) < FEWEST:
        return
    (place, most), *_ = Counter(place for _, place in stood.values()).most_common(1)
    others = [rank for rank, (_, other) in stood.items() if other != place]
    if len(others) != 1 or most < MOST_AT * len(stood):
        return
    # Most waited for it, or it alone had waited until its time was up: for a call that no other one came to.
    if len(waited) * 2 < len(stood) and waited != set(others):
        return
    groups = {_group(frame) for _, frame in frames.values()}
    if len(groups) > 1:
        return
    event, (path, line) = stood[others[0]]
    yield Vote(kind="elsewhere", rank=others[0], quotes=(scene.case.quote(event.hit),),
               text=f"stood at {path}:{line}, while {most} others stood at {place[0]}:{place[1]}")  # fmt: skip


def places(scene: Scene) -> dict[int, tuple[Event, tuple[str, int | None]]]:
    """Return where each rank stood that complains of the others, by its first complaint."""
    return {rank: (event, (frame.path, frame.line)) for rank, (event, frame) in _frames(scene).items()}


def _group(frame: Frame) -> str:
    """Return the group of ranks that a call names; empty where it names none."""
    named = _GROUP.search(frame.code)
    return named[1] if named else ""


def _frames(scene: Scene) -> dict[int, tuple[Event, Frame]]:
    raised = {(one.hit.file, one.hit.line): one for one in scene.case.raised}
    found: dict[int, tuple[Event, Frame]] = {}
    for event in scene.failing:
        if event.role != "cascade" or event.rank is None or event.rank in found or from_dump(event):
            continue
        one = event.raised or raised.get(event.place)
        frame = own_frame(reversed(one.frames)) if one is not None else None
        if frame is not None and frame.line is not None:
            found[event.rank] = (event, frame)
    return found
