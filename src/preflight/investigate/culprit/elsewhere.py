"""Where the ranks stood when they gave up waiting: whoever stood at another line of the program than most did not come to theirs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from preflight.investigate.culprit.members import further_on, group_named, last_steps, left_waiting, standing
from preflight.investigate.culprit.vote import Scene, Vote, is_wait

FEWEST = 3
MOST_AT = 2 / 3
"""Where fewer stand at one place there are several groups of ranks, as stages of a pipeline are."""


def votes(scene: Scene) -> Iterator[Vote]:
    """Vote for the one rank that stood elsewhere, where most stood at the same line.

    Where their calls name different groups of ranks, each may have come to its own, and whoever is missing in one of them is not told.
    """
    stood = standing(scene)
    waited = {rank for rank, one in stood.items() if is_wait(one.event)}
    if len(stood) < FEWEST:
        return
    (place, most), *_ = Counter(one.place for one in stood.values()).most_common(1)
    others = [rank for rank, one in stood.items() if one.place != place]
    if len(others) != 1 or most < MOST_AT * len(stood):
        return
    # Most waited for it, or it alone had waited until its time was up: for a call that no other one came to.
    if len(waited) * 2 < len(stood) and waited != set(others):
        return
    if others[0] in left_waiting(scene):
        return
    groups = {group_named(one.frames[-1]) for one in stood.values()}
    usual = next(rank for rank in stood if rank != others[0])
    # Who had come further went past a call of all ranks, whatever the group is in whose call it was then.
    past = not group_named(stood[usual].frames[-1]) and further_on(stood, last_steps(scene), others[0], usual)
    if len(groups) > 1 and not past:
        return
    event, (path, line) = stood[others[0]].event, stood[others[0]].place
    yield Vote(kind="elsewhere", rank=others[0], quotes=(scene.case.quote(event.hit),),
               text=f"stood at {path}:{line}, while {most} others stood at {place[0]}:{place[1]}")  # fmt: skip
