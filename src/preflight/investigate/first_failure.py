"""The line that tells of the failure first, and the rank and the node that it is of."""

from __future__ import annotations

import re

from preflight.investigate.case.case import Case, Event
from preflight.investigate.case.handed_on import NAMES_ITS_RANK
from preflight.investigate.cause.category import Decided
from preflight.investigate.culprit.exit_code import by_themselves, first_seen
from preflight.investigate.culprit.vote import STORE_WAITS, Scene
from preflight.investigate.flight.frames import own_frame
from preflight.vocabulary.incident import Culprit, FirstFailure
from preflight.vocabulary.log import Frame

_OF_THE_STORE = (STORE_WAITS,)
"""What the process that keeps the store of a process group says, which is rank 0 (``TCPStore::waitForWorkers`` of torch)."""
_GONE = re.compile(r"^network\..*(?:peer-closed|peer-reset|connection-closed|remote-error)$")
_BY_ITSELF = (4, 5, 6, 7, 8, 11, 14)
"""Signals that end a process for what it does itself; the others are sent to it."""


def first_failure_of(scene: Scene, decided: Decided, culprit: Culprit) -> FirstFailure | None:
    """Return the line that decided, as that of the rank that it is of; None where nothing did."""
    event = decided.leading
    if event is None:
        return None
    rank = event.rank
    if rank is None:
        beside = (one.rank for one in scene.failing if one.place == event.place and one.rank is not None)
        rank = next(beside, None)
    if rank is None and event.node is not None:  # what is told of a node is of its ranks
        rank = next((one for one in culprit.ranks if scene.case.people.node_of.get(one) == event.node), None)
    if rank is None:  # a scheduler's line of the whole job: another one tells of whom it holds
        alike = (one.rank for one in scene.failing if one.category == event.category and one.rank in culprit.ranks)
        told = {one.rank for one in scene.failing if one.rank is not None}
        rank = next(alike, None if len(told) != 1 else next(iter(told)))
    ended = {
        scene.case.people.rank_of(one.about, one.file)
        for one in scene.case.endings
        if one.code and (one.code > 0 or -one.code in _BY_ITSELF)
    }
    if rank is not None and rank not in ended:  # of those that said the same, the one that ended by itself
        rank = next((one.rank for one in scene.failing if one.id == event.id and one.rank in ended - {None}), rank)
    if len(culprit.ranks) == 1 and (event.id == NAMES_ITS_RANK or _told_by_others(scene, event, culprit.ranks[0])):
        rank = culprit.ranks[0]
    if rank is None:  # printed again without a label: the first one that said it with one
        rank = next((one.rank for one in scene.failing if one.id == event.id and one.rank is not None), None)
    if _GONE.search(event.id) and len(culprit.ranks) == 1 and not scene.waited:
        rank = culprit.ranks[0]  # the line tells of whoever is at the other end
    if rank is None:  # no line of it is there but that of its scheduler
        rank = next((one for one in by_themselves(scene) if one in culprit.ranks), None)
    if rank is None and event.id in _OF_THE_STORE:
        rank = 0
    if rank is None and not culprit.ranks:  # nobody is told from the others: one of those that ended with an error
        rank = next(iter(first_seen(scene)), next(iter(by_themselves(scene)), None))
    line = next((one for one in scene.failing if one.id == event.id and one.rank == rank), event)  # its own line
    return FirstFailure(rank=rank, node=line.node, time=line.time, path=scene.case.path(line.hit.file),
                        line=line.hit.line, text=line.hit.text, step=line.step, frame=_frame_of(scene.case, line))  # fmt: skip


def _frame_of(case: Case, event: Event) -> Frame | None:
    """Return where the program's own code was when an exception was raised; None where the event is none, or no frame is its."""
    hit, raised = event.hit, event.raised
    if raised is None:
        of_file = (one for one in case.raised if (one.hit.file, one.hit.who) == (hit.file, hit.who))
        # What an exception says may have several lines, and a signature may know any of them.
        raised = next((one for one in of_file if 0 <= hit.line - one.hit.line <= one.message.count("\n")), None)
    return own_frame(reversed(raised.frames)) if raised is not None else None


def _told_by_others(scene: Scene, event: Event, rank: int) -> bool:
    """Return whether what decided is what agents say of those that ended, and one says it of this rank: agents have clocks of their own."""
    return event.hit.about is not None and any(
        one.id == event.id and one.rank == rank and one.hit.about is not None for one in scene.failing
    )
