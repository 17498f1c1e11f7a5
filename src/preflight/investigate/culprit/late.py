"""Who came when the others had given up waiting: it finds a broken connection where they tell that they waited in vain."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.investigate.case.case import Event
from preflight.investigate.culprit import elsewhere
from preflight.investigate.culprit.members import left_waiting
from preflight.investigate.culprit.silence import missing_ranks, silent_ranks
from preflight.investigate.culprit.vote import Scene, Vote, from_dump, is_wait

FEWEST = 2


def votes(scene: Scene) -> Iterator[Vote]:
    """Vote for the one rank that did not wait, where all speak, none names a cause and all others waited until a limit.

    Where somebody is silent or has no log, it may be that one for which they waited, and a broken connection is that of a rank
    which sat beside the first one to give up.
    """
    first: dict[int, Event] = {}
    waited: set[int] = set()
    for event in scene.failing:
        if event.role != "cascade" or event.rank is None or from_dump(event) or event.hit.about is not None:
            continue
        first.setdefault(event.rank, event)
        if is_wait(event):
            waited.add(event.rank)
    late = [rank for rank, event in first.items() if rank not in waited and event.category == "network"]
    everybody = set(scene.case.people.ranks()) == waited | set(late)
    if (
        len(late) != 1
        or len(waited) < FEWEST
        or not everybody
        or any(event.rank is not None for event in scene.roots())
    ):
        return
    if silent_ranks(scene) or missing_ranks(scene) or any(event.id == "elastic.closing" for event in scene.failing):
        return  # where an agent stops the rest, those beside the first one that it stops find their connections gone, too
    if late[0] in left_waiting(scene) or any(vote.rank != late[0] for vote in elsewhere.votes(scene)):
        return  # it had not come late: it was held up, or another one was in a call of its own
    yield Vote(kind="late", rank=late[0], quotes=(scene.case.quote(first[late[0]].hit),),
               text=f"found the connection gone where {len(waited)} others had waited for it in vain")  # fmt: skip
