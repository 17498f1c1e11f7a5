"""Whom ranks waited for where they send to and receive from one another, by what stands on the line at which they gave up.

``dist.recv(x, rank - 1)`` says who was to send. Where two wait for each other, the one that had come further in the program went
past what the other one still waits for; where all waiting ends at one rank that did not wait itself, that one did not come.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from preflight.investigate.culprit.members import Stood, further_on, last_steps, standing
from preflight.investigate.culprit.vote import Scene, Vote, is_wait

_CALL = re.compile(r"\bi?(recv|send)\(")
_OWN = r"(?:\w+\.)*(?:\w*rank|me|stage|stage_id|get_rank\(\))"
_BESIDE = re.compile(rf"(?i)\(?{_OWN} ?([+-]) ?(\d+)\)?( ?% ?[\w.()]+)?")
_BEFORE = re.compile(r"(?i)(?:^|[._])(?:prev|previous|left|upstream)(?:_\w+)?$|_prev$")
_BEHIND = re.compile(r"(?i)(?:^|[._])(?:next|right|downstream)(?:_\w+)?$|_next$")
FEWEST = 2


def votes(scene: Scene) -> Iterator[Vote]:
    """Vote for the one of two that wait for each other which had come further, or for the one at which all waiting ends."""
    stood, world = standing(scene), scene.case.people.world or 0
    waited = {rank: one for rank, one in stood.items() if is_wait(one.event)}
    waits = {rank: peer for rank, one in waited.items() if (peer := peer_of(one, rank, world)) is not None}
    if not waits or any(event.rank is not None for event in scene.roots()):
        return
    steps = last_steps(scene)
    for rank, peer in waits.items():
        if waits.get(peer) == rank and further_on(stood, steps, rank, peer):
            path, line = stood[peer].place
            yield Vote(kind="went-past", rank=rank, quotes=(scene.case.quote(stood[rank].event.hit),),
                       text=f"went past what rank {peer} waited for at {path}:{line}, and they waited for each other")  # fmt: skip
    ends = {_end(waits, rank) for rank in waits}
    end = next(iter(ends))
    if len(ends) > 1 or end is None or end in waited:
        return
    mute = all(event.rank != end for event in scene.failing)
    if mute or len(waits) >= FEWEST:
        first = next(iter(waits))
        whose = (
            f"{len(waits)} ranks ends, each of which waited for the one beside it"
            if len(waits) > 1
            else f"rank {first} ends"
        )
        yield Vote(kind="went-past", rank=end, quotes=(scene.case.quote(stood[first].event.hit),),
                   text=f"is where the waiting of {whose}")  # fmt: skip


def _end(waits: Mapping[int, int], rank: int) -> int | None:
    """Return the rank at which a chain of waiting ends; None for a circle."""
    seen = {rank}
    while rank in waits:
        rank = waits[rank]
        if rank in seen:
            return None
        seen.add(rank)
    return rank


def peer_of(one: Stood, rank: int, world: int) -> int | None:
    """Return whom the call on the line of a rank names; None where that cannot be told, or where calls of the line differ.

    Of how many ranks they are, nothing tells where only places on a node are known: ``world`` is 0 then.
    """
    if world < 1:
        return None
    code, way = one.frames[-1].code, one.event.hit.fields.get("way")
    found = {
        _rank_named(args, rank, world)
        for match in _CALL.finditer(code)
        if way in (None, match[1]) and (args := _arguments(code, match.end()))
    }
    return next(iter(found)) if len(found) == 1 else None


def calls_one(one: Stood) -> str:
    """Return whether the line of a rank sends to one other rank or receives from one: ``send``, ``recv``, ``both``, or nothing."""
    code = one.frames[-1].code
    ways = {match[1] for match in _CALL.finditer(code)}
    if len(ways) > 1 or "batch_isend_irecv(" in code:
        return "both"
    return next(iter(ways), "")


def _arguments(code: str, at: int) -> list[str]:
    """Return what stands between the brackets that open before a place, divided by its outer commas."""
    depth, parts = 0, [""]
    for letter in code[at:]:
        depth += (letter in "([{") - (letter in ")]}")
        if depth < 0:
            return [part.strip() for part in parts]
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return []


def _rank_named(args: list[str], rank: int, world: int) -> int | None:
    named = {key.strip(): value.strip() for key, sign, value in (arg.partition("=") for arg in args) if sign}
    said = named.get("src") or named.get("dst") or (args[1] if len(args) > 1 and "=" not in args[1] else "")
    if said.isdecimal():
        return int(said) if int(said) < world else None
    if beside := _BESIDE.fullmatch(said):
        peer = rank + int(beside[1] + beside[2])
        return peer % world if beside[3] else peer if 0 <= peer < world else None
    step = -1 if _BEFORE.search(said) else 1 if _BEHIND.search(said) else 0
    return (rank + step) % world if step else None
