"""Who a ring of gloo waits for: one rank alone cannot get rid of what it sends, and what it sends goes to the one before it.

In gloo's all-reduce each rank sends to the one before it and receives from the one behind it (``gloo/allreduce.cc``). Where one
does not take part, the one before it waits to receive, those before that wait in turn, and only the one behind it waits to send.
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.investigate.case.case import Event
from preflight.investigate.culprit.members import left_out, left_waiting
from preflight.investigate.culprit.vote import Scene, Vote
from preflight.investigate.flight.frames import own_frame
from preflight.vocabulary.log import Raised

FEWEST = 3
"""In a ring of two, the one behind is the one before as well."""
OF_SOME = 0.6
"""What the ring of a group says of which not all members are known, and one of which nobody else tells how it waited."""
_REDUCES = ("all_reduce", "_engine_run_backward", "run_backward", "backward")


def votes(scene: Scene) -> Iterator[Vote]:
    """Vote for the one before the only rank that waited to send, where all others that tell stood at the same line as it."""
    world = scene.case.people.world or 0
    raised = {(one.hit.file, one.hit.line): one for one in scene.case.raised}
    waits: dict[int, tuple[Event, Raised]] = {}
    stood: dict[int, tuple[str, int | None]] = {}
    for event in scene.failing:
        one = event.raised or raised.get(event.place)
        if event.role != "cascade" or event.rank is None or event.rank in stood or one is None:
            continue
        frame = own_frame(reversed(one.frames))
        stood[event.rank] = (frame.path, frame.line) if frame is not None else ("", None)
        if event.hit.fields.get("way") in ("send", "recv") and _reduces(one):
            waits[event.rank] = (event, one)
    senders = [rank for rank, (event, _) in waits.items() if event.hit.fields["way"] == "send"]
    if world < FEWEST or len(senders) != 1:
        return
    suspect = (senders[0] - 1) % world
    if suspect in left_waiting(scene):
        return
    others = {place for rank, place in stood.items() if rank != suspect}
    event, _ = waits[senders[0]]
    quotes = (scene.case.quote(event.hit),)
    if len(others) == 1 and suspect not in waits:
        yield Vote(kind="ring", rank=suspect, quotes=quotes, strength=1.0 if len(waits) > 1 else OF_SOME,
                   text=f"rank {senders[0]} alone could not send to it in the ring of an all-reduce; others waited to receive")  # fmt: skip
        return
    # A ring of some of the ranks is in the order of their numbers, too: the one before is the next lower one of its members,
    # and nothing tells who of those that stood elsewhere is a member.
    ring = {rank for rank in waits if stood[rank] == stood[senders[0]]}
    everybody = set(stood) == set(scene.case.people.ranks())
    known = left_out(scene)
    if everybody and len(ring) > 1 and ring == set(waits) and suspect not in ring and (not known or suspect in known):
        yield Vote(kind="ring", rank=suspect, strength=OF_SOME, quotes=quotes,
                   text=f"rank {senders[0]} alone could not send in the ring of an all-reduce of some ranks, and it is the one before")  # fmt: skip


def _reduces(raised: Raised) -> bool:
    return any(frame.function.rpartition(".")[2] in _REDUCES for frame in raised.frames)
