"""Who gave a tensor of another size: gloo ends the process that gets more than it asked for, and says nothing of the sender."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.investigate.case.case import Event
from preflight.investigate.culprit.called import calls_one, peer_of
from preflight.investigate.culprit.members import standing
from preflight.investigate.culprit.vote import TOO_MUCH, Scene, Vote

FEWEST = 3
"""Of two ranks each sends to the other one."""
OTHER_CALLS = 4
"""Sizes that differ by so much are of different calls: one of both ranks left one out, and nothing tells which."""
OF_BOTH = 0.75
OF_ONE_AMONG_OTHERS = 0.25
"""What is left of it for the one that got too much, where the other one is known to have been in a call of its own."""
OF_ONE_THAT_HANDS_OVER = 1.5
"""Who receives from one other rank asks for what both have agreed on; what is handed over was worked out."""
RESET = "network.gloo-peer-reset"


def votes(scene: Scene) -> Iterator[Vote]:
    """Vote for the one rank that got too much, and as much for the one that sends to it in a ring.

    Whoever asked for less gets too much; so does the one to whom a rank sends that has more than the others.
    """
    told = got_too_much(scene)
    world = scene.case.people.world or 0
    if len(told) != 1 or world < 2:
        return
    (rank, event), quotes = next(iter(told.items())), scene.case.quote(next(iter(told.values())).hit)
    got, asked = event.hit.fields.get("got"), event.hit.fields.get("expected")
    sizes = f"got {got} bytes where it had asked for {asked}" if got and asked else "got more than it had asked for"
    giver = _hands_over(scene, rank)
    if giver is not None:
        yield Vote(kind="size-differs", rank=giver, strength=OF_ONE_THAT_HANDS_OVER, quotes=(quotes,),
                   text=f"hands its tensor to rank {rank}, which {sizes}")  # fmt: skip
        return
    other = isinstance(got, int) and isinstance(asked, int) and got >= OTHER_CALLS * asked
    sender = (rank + (-1 if _gathers(scene) else 1)) % world
    elsewhere = _stood_alone(scene, sender) if other else ""
    yield Vote(kind="size-differs", rank=rank, quotes=(quotes,), shared=not elsewhere,
               strength=OF_ONE_AMONG_OTHERS if elsewhere else OF_BOTH if other else 1.0,
               text=f"{sizes}: its tensor is smaller, or that of who sends to it is larger")  # fmt: skip
    yield Vote(kind="size-differs", rank=sender, strength=OF_BOTH if other else 1.0, quotes=(quotes,),
               shared=not elsewhere,
               text=f"sends to rank {rank} in a ring, which {sizes}")  # fmt: skip
    if elsewhere:
        yield Vote(kind="elsewhere", rank=sender, quotes=(quotes,), text=f"{elsewhere}, and it sent what did not fit")


def sender_of_too_much(scene: Scene) -> int | None:
    """Return who sends in a ring to the one rank that got too much: that one's end broke its connection, whichever of them began it."""
    told, world = got_too_much(scene), scene.case.people.world or 0
    if len(told) != 1 or world < FEWEST:
        return None
    return (next(iter(told)) + (-1 if _gathers(scene) else 1)) % world


def got_too_much(scene: Scene) -> dict[int, Event]:
    """Return the ranks that gloo ended as they got more than they had asked for."""
    # What native code prints as it ends its process bears no label; who aborted is told by who looked after it.
    aborted = {event.rank for event in scene.failing if event.id == "exit.aborted"} - {None}
    left = set(scene.case.people.ranks()) - scene.case.people.seen
    who = aborted or left  # of whom no other line is there, where all others tell who they are
    alone = next(iter(who)) if len(who) == 1 else None
    return {
        rank: event
        for event in scene.failing
        if event.id == TOO_MUCH and (rank := event.rank if event.rank is not None else alone) is not None
    }


def _hands_over(scene: Scene, rank: int) -> int | None:
    """Return who sends to a rank, where all who tell stood in calls of one to another.

    Who waits to receive from that rank was not about to send to it; and what the one that ended had not read yet resets the
    connection of who sent it, while others find theirs closed. Of two that may have, it is the one before, as stages hand on.
    """
    world, stood = scene.case.people.world or 0, standing(scene)
    if not stood or not all(calls_one(one) for one in stood.values()):
        return None
    named = {who: calls_one(one) for who, one in stood.items() if peer_of(one, who, world) == rank}
    beside = {rank - 1, rank + 1} & set(range(world)) - {who for who, way in named.items() if way == "recv"}
    may = {who for who, way in named.items() if way == "send"} or beside
    reset = {who for who in may if who in stood and stood[who].event.id == RESET}
    return min(reset or may, default=None)


def _gathers(scene: Scene) -> bool:
    """Return whether all who tell where they stood gathered: then a rank sends to the one behind it, and else to the one before.

    Seen with torch 2.13 on four ranks, of which one gave more than the others.
    """
    calls = [
        any("all_gather" in frame.function for frame in one.frames)
        for one in scene.case.raised
        if scene.case.people.rank_of(one.hit.who, one.hit.file) is not None
    ]
    return bool(calls) and all(calls)


def _stood_alone(scene: Scene, rank: int) -> str:
    """Say where a rank stood that stood where no other one did that tells of it; these stood at one line."""
    stood = {who: one.place for who, one in standing(scene).items()}
    mine = stood.pop(rank, None)
    others = set(stood.values())
    if mine is None or len(others) != 1 or mine in others:
        return ""
    (path, line), (other, there) = mine, next(iter(others))
    return f"stood at {path}:{line}, while others stood at {other}:{there}"
