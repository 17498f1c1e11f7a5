"""Who gave a tensor of another size: gloo ends the process that gets more than it asked for, and says nothing of the sender."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.investigate.culprit.vote import TOO_MUCH, Scene, Vote

OF_THE_SENDER = 0.5
"""A batch that is smaller than the others, as the last one of a share of the data, is commoner than one that is larger."""

OTHER_CALLS = 4
"""Sizes that differ by so much are of different calls: one of both ranks left one out, and nothing tells which."""
OF_BOTH = 0.75


def votes(scene: Scene) -> Iterator[Vote]:
    """Vote for the one rank that got too much, and less for the one that sends to it in a ring (``gloo/allreduce.cc``).

    Whoever asked for less gets too much; so does the one to whom a rank sends that has more than the others.
    """
    # What native code prints as it ends its process bears no label; who aborted is told by who looked after it.
    aborted = {event.rank for event in scene.failing if event.id == "exit.aborted"} - {None}
    alone = next(iter(aborted)) if len(aborted) == 1 else None
    told = {
        rank: event
        for event in scene.failing
        if event.id == TOO_MUCH and (rank := event.rank if event.rank is not None else alone) is not None
    }
    world = scene.case.people.world or 0
    if len(told) != 1 or world < 2:
        return
    (rank, event), quotes = next(iter(told.items())), scene.case.quote(next(iter(told.values())).hit)
    got, asked = event.hit.fields.get("got"), event.hit.fields.get("expected")
    sizes = f"got {got} bytes where it had asked for {asked}" if got and asked else "got more than it had asked for"
    other = isinstance(got, int) and isinstance(asked, int) and got >= OTHER_CALLS * asked
    yield Vote(kind="size-differs", rank=rank, strength=OF_BOTH if other else 1.0, quotes=(quotes,),
               text=f"{sizes}: its tensor is smaller, or that of who sends to it is larger")  # fmt: skip
    sender = (rank + 1) % world
    yield Vote(kind="size-differs", rank=sender, strength=OF_BOTH if other else OF_THE_SENDER, quotes=(quotes,),
               text=f"sends to rank {rank} in a ring, which {sizes}")  # fmt: skip
