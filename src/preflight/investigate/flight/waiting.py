"""Who waits for whom: each rank's oldest unfinished call, and the ranks that keep it from finishing.

A rank that is behind in one group may itself be waiting in another. So the waiting is followed, from rank to rank, until it
comes to one that waits for nobody: that had handed in everything it has and not the call that others are in, that wrote no dump,
or whose call was finished by its peers while it never saw the end of it (its device, not its program, stopped).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from preflight.investigate.flight.groups import GroupState
from preflight.vocabulary.log import Call, Flight

End = Literal["idle", "no-dump", "device", "all-arrived"]
# Every rank does not have to be there for these to finish on another.
ONE_SIDED = frozenset({"broadcast", "_broadcast_oop", "reduce", "_reduce_oop", "gather", "scatter", "send", "recv"})


_MOST_ROUNDS = 2048
"""A circle of more ranks has not been seen: pipelines have tens of stages."""


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """What a rank waits in and for whom.

    Attributes:
        rank: Who waits.
        call: The oldest call that it has not finished; None: it waits for nothing.
        group: Where, in words.
        behind: Ranks that have not made the call.
        elsewhere: Ranks that made it and are held up in an older call.
        end: Why the waiting ends here, where it does.
    """

    rank: int
    call: Call | None
    group: str = ""
    behind: tuple[int, ...] = ()
    elsewhere: tuple[int, ...] = ()
    end: End | None = None


def waits_of(flights: dict[int, Flight], groups: Sequence[GroupState], ranks: Sequence[int]) -> dict[int, Wait]:
    """Return what each rank waits for."""
    of_rank: dict[tuple[int, str], GroupState] = {}
    for group in groups:
        for rank in group.members:
            of_rank.setdefault((rank, group.name), group)
    heads = {rank: _head(rank, flight, of_rank) for rank, flight in flights.items()}
    known = frozenset(ranks)
    told: dict[tuple[int, int], _Others] = {}
    waits = {}
    for rank in ranks:
        flight = flights.get(rank)
        if flight is None:
            waits[rank] = Wait(rank=rank, call=None, end="no-dump")
            continue
        call = heads[rank]
        if call is None:
            waits[rank] = Wait(rank=rank, call=None, end="idle")
            continue
        state = of_rank.get((rank, call.group))
        label = state.label if state else f"group {call.group}"
        if call.peer_to_peer:
            waits[rank] = _pair_wait(rank, call, label, heads, flights, known)
        elif state is None:
            waits[rank] = Wait(rank=rank, call=call, group=label, end="all-arrived")
        else:
            # All who wait in a call wait for the same ranks: with thousands of them that is looked up once.
            key = (id(state), call.sequence)
            if key not in told:
                told[key] = _others(call, state, heads, flights, known)
            waits[rank] = _wait(rank, call, label, told[key])
    return waits


def _head(rank: int, flight: Flight, of_rank: Mapping[tuple[int, str], GroupState]) -> Call | None:
    """Return the oldest call that is not finished; calls of a log have no times, so that their order counts."""
    open_calls = []
    for call in flight.calls:
        state = of_rank.get((rank, call.group))
        done = state.completed.get(rank, -1) if state is not None else -1
        if call.state != "completed" and (call.peer_to_peer or call.sequence > done):
            open_calls.append(call)
    return min(open_calls, key=lambda call: call.created or 0.0) if open_calls else None


class _Others(msgspec.Struct, frozen=True):
    """Who has not made a call, who has finished it, and who made it and is held up in an older one."""

    behind: tuple[int, ...]
    finished: frozenset[int]
    elsewhere: tuple[int, ...]


def _others(
    call: Call,
    state: GroupState,
    heads: dict[int, Call | None],
    flights: dict[int, Flight],
    known: frozenset[int],
) -> _Others:
    members = [one for one in state.members if one in known]
    behind = tuple(
        one
        for one in members
        if (one in state.enqueued and state.enqueued[one] < call.sequence) or (state.sure and one not in flights)
    )
    late = frozenset(behind)
    return _Others(
        behind,
        frozenset(one for one in members if state.completed.get(one, -1) >= call.sequence),
        tuple(one for one in members if one not in late and _held_up(one, call, heads)),
    )


def _wait(rank: int, call: Call, label: str, others: _Others) -> Wait:
    behind = tuple(one for one in others.behind if one != rank) if rank in others.behind else others.behind
    if not behind and call.name not in ONE_SIDED and len(others.finished) > (rank in others.finished):
        return Wait(rank=rank, call=call, group=label, end="device")
    elsewhere = tuple(one for one in others.elsewhere if one != rank) if rank in others.elsewhere else others.elsewhere
    end: End | None = None if behind or elsewhere else "all-arrived"
    return Wait(rank=rank, call=call, group=label, behind=behind, elsewhere=elsewhere if not behind else (), end=end)


def _held_up(other: int, call: Call, heads: dict[int, Call | None]) -> bool:
    """Tell whether a rank's oldest unfinished call is another and older one."""
    head = heads.get(other)
    if head is None or (head.group == call.group and head.sequence >= call.sequence and not head.peer_to_peer):
        return False
    return head.group != call.group or head.sequence < call.sequence or head.peer_to_peer != call.peer_to_peer


def _pair_wait(
    rank: int,
    call: Call,
    label: str,
    heads: dict[int, Call | None],
    flights: dict[int, Flight],
    known: frozenset[int],
) -> Wait:
    """Say of a point-to-point call whether its other side made it: calls of a pair are matched in order."""
    peer = call.destination if call.source == rank else call.source
    if peer is None or peer == rank or peer not in known:
        return Wait(rank=rank, call=call, group=label, end="all-arrived")
    if peer not in flights:
        return Wait(rank=rank, call=call, group=label, behind=(peer,))
    if _arrived(rank, peer, call, flights):
        head = heads.get(peer)
        mine = head is not None and {head.source, head.destination} == {rank, peer} and head.source == call.source
        if head is not None and not mine:
            return Wait(rank=rank, call=call, group=label, elsewhere=(peer,))
        return Wait(rank=rank, call=call, group=label, end="all-arrived" if mine else "device")
    return Wait(rank=rank, call=call, group=label, behind=(peer,))


def _arrived(rank: int, peer: int, call: Call, flights: dict[int, Flight]) -> bool:
    """Tell whether the peer made its side of the call: as many of its kind, counted where both sides can be counted."""
    here, there = flights[rank], flights[peer]
    pair = (call.source, call.destination)
    mine = [one for one in here.calls if one.peer_to_peer and (one.source, one.destination) == pair]
    theirs = [one for one in there.calls if one.peer_to_peer and (one.source, one.destination) == pair]
    if here.wrapped or there.wrapped:
        mine = [one for one in mine if one.state != "completed"]
        theirs = [one for one in theirs if one.state != "completed"]
    position = mine.index(call) if call in mine else 0
    return len(theirs) > position


def flow(waits: dict[int, Wait]) -> dict[int, float]:
    """Let each waiting rank's one vote walk to whom it waits for, until it stays; the shares add up to 1.

    A vote that comes to several goes to them in equal parts. In a circle it stays with those of the circle.
    """
    waiting = [
        rank for rank, wait in waits.items() if wait.behind or wait.elsewhere or wait.end in ("device", "all-arrived")
    ]
    if not waiting:
        return {}
    votes = {rank: 1.0 / len(waiting) for rank in waiting}
    total: dict[int, float] = {}
    # In a circle the votes go round for ever: the mean of many rounds is where they are.
    rounds = min(4 * len(waits) + 16, _MOST_ROUNDS)
    for turn in range(rounds):
        following: dict[int, float] = {}
        for rank, share in votes.items():
            wait = waits.get(rank)
            targets = (wait.behind or wait.elsewhere) if wait is not None else ()
            for target in targets or (rank,):
                following[target] = following.get(target, 0.0) + share / max(len(targets), 1)
        if following == votes:
            return dict(sorted(votes.items(), key=lambda item: -item[1]))
        votes = following
        if turn >= rounds // 2:
            for rank, share in votes.items():
                total[rank] = total.get(rank, 0.0) + share
    whole = sum(total.values())
    return {rank: share / whole for rank, share in sorted(total.items(), key=lambda item: -item[1])}


def circle(waits: dict[int, Wait]) -> tuple[int, ...]:
    """Return ranks that wait for each other in a circle, if any do."""
    for start in waits:
        seen: list[int] = []
        rank = start
        while rank in waits and rank not in seen:
            seen.append(rank)
            targets = waits[rank].behind or waits[rank].elsewhere
            if len(targets) != 1:
                break
            rank = targets[0]
        else:
            if rank in seen and len(seen) - seen.index(rank) > 1:
                return tuple(seen[seen.index(rank) :])
    return ()
