"""The process groups of a run as the dumps of its ranks tell of them, side by side."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from preflight.vocabulary.log import Call, Flight


class GroupState(msgspec.Struct, frozen=True, kw_only=True):
    """One process group over all ranks that have told of it.

    Attributes:
        name: As torch named it.
        title: What the program made it for.
        members: Global ranks; ``sure`` tells whether a dump listed them or only the ranks that used it are known.
        enqueued: Last collective handed in, by rank; a rank that cannot be told is left out.
        completed: Last collective finished, by rank.
        calls: The collectives of each rank by their number; a coalesced one is several calls.
    """

    name: str
    title: str
    members: tuple[int, ...]
    sure: bool
    enqueued: dict[int, int]
    completed: dict[int, int]
    calls: dict[int, dict[int, tuple[Call, ...]]]

    @property
    def label(self) -> str:
        """What a person would call it."""
        return f"{self.title} ({self.name})" if self.title else f"group {self.name}"


def by_rank(flights: Sequence[Flight]) -> dict[int, Flight]:
    """Return one flight for each rank: the one with most calls, where several told of it."""
    chosen: dict[int, Flight] = {}
    for flight in flights:
        rank = flight.who.rank
        if rank is None or flight.problem and not (flight.calls or flight.enqueued):
            continue
        before = chosen.get(rank)
        if before is None or len(flight.calls) > len(before.calls):
            chosen[rank] = flight
    return chosen


def groups_of(flights: dict[int, Flight], world_size: int | None) -> tuple[GroupState, ...]:
    """Put the groups of all ranks side by side; groups of one name and different members are different groups."""
    states = []
    for (name, members), title in _identities(flights, world_size).items():
        sure = bool(members)
        inside = members or _users(flights, name)
        calls: dict[int, dict[int, tuple[Call, ...]]] = {}
        enqueued: dict[int, int] = {}
        completed: dict[int, int] = {}
        for rank in inside:
            flight = flights.get(rank)
            if flight is None or _other(flight, name, members):
                continue
            calls[rank] = _numbered(flight, name)
            _reached(flight, name, rank, enqueued, completed)
        states.append(
            GroupState(
                name=name,
                title=title,
                members=tuple(sorted(inside)),
                sure=sure,
                enqueued=enqueued,
                completed=completed,
                calls=calls,
            )
        )
    return tuple(states)


def _identities(flights: dict[int, Flight], world_size: int | None) -> dict[tuple[str, tuple[int, ...]], str]:
    found: dict[tuple[str, tuple[int, ...]], str] = {}
    listed = {name for flight in flights.values() for name in flight.groups}
    for flight in flights.values():
        for name, members in flight.groups.items():
            found.setdefault((name, tuple(sorted(members))), flight.titles.get(name, ""))
        for name in {*(call.group for call in flight.calls), *flight.enqueued} - listed:
            title = flight.titles.get(name, "")
            everybody = title == "default_pg" or (name == "0" and not title)
            known = tuple(range(world_size)) if everybody and world_size else ()
            found[name, known] = title or found.get((name, known), "")
    return found


def _users(flights: dict[int, Flight], name: str) -> tuple[int, ...]:
    users = (r for r, f in flights.items() if name in f.enqueued or any(call.group == name for call in f.calls))
    return tuple(users)


def _other(flight: Flight, name: str, members: tuple[int, ...]) -> bool:
    """Tell whether the rank means another group by this name."""
    own = flight.groups.get(name)
    return own is not None and bool(members) and tuple(sorted(own)) != members


def _numbered(flight: Flight, name: str) -> dict[int, tuple[Call, ...]]:
    found: dict[int, list[Call]] = {}
    for call in flight.calls:
        if call.group == name and not call.peer_to_peer and call.sequence >= 0:
            found.setdefault(call.sequence, []).append(call)
    return {sequence: tuple(calls) for sequence, calls in found.items()}


def _reached(flight: Flight, name: str, rank: int, enqueued: dict[int, int], completed: dict[int, int]) -> None:
    last = flight.enqueued.get(name)
    # A rank whose whole history is there and that never called the group has called it no time.
    if last is None and not flight.wrapped and flight.calls:
        last = 0
    if last is not None:
        enqueued[rank] = last
    done = flight.completed.get(name)
    if done is not None:
        completed[rank] = done
    elif last is not None and not flight.wrapped:
        completed[rank] = 0
