"""Where ranks of a group called different things: the first number at which they did, and who was in the minority."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from preflight.investigate.flight.frames import own_frame, written
from preflight.investigate.flight.from_logs import NUMBER_ALONE
from preflight.investigate.flight.groups import GroupState
from preflight.vocabulary.log import Call, Flight, Frame

What = Literal["operation", "size", "dtype", "call-site"]
SUBSTANCE: tuple[What, ...] = ("operation", "size", "dtype")
# Ranks may bring different amounts to these.
UNEVEN = (
    "all_to_all",
    "alltoall",
    "gather",
    "scatter",
    "all_gather_v",
    "reduce_scatter_v",
    "barrier",
    "coalesced",
    "send",
    "recv",
)
# Fewer ranks than this share of those compared are a minority.
HALF = 0.5


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """The first call of a group at which its ranks disagree.

    Attributes:
        group: The group, in words.
        sequence: Its number in the group.
        what: In what they differ.
        minority: The ranks that did otherwise than most; empty where there are as many of each.
        majority: The others.
        said: What each side called, in words, the minority's (or the first) before the majority's.
        places: Where each side called it.
        shift: What the minority must have done, where its later calls match the majority's one further on or back.
        time: When the call was made, seconds since 1970.
    """

    group: str
    sequence: int
    what: What
    minority: tuple[int, ...]
    majority: tuple[int, ...]
    sides: tuple[tuple[int, ...], ...]
    said: tuple[str, ...]
    places: tuple[Frame | None, ...]
    shift: str | None = None
    time: float | None = None


def differences(groups: Sequence[GroupState], flights: Mapping[int, Flight]) -> tuple[Difference, ...]:
    """Return the first difference of each group that has one, the earliest first; those of substance before others."""
    found = [one for group in groups for one in [_first(group, flights)] if one is not None]
    return tuple(sorted(found, key=lambda one: (one.what == "call-site", one.time or 0.0)))


def _first(group: GroupState, flights: Mapping[int, Flight]) -> Difference | None:
    """Return the first difference of substance, or, where there is none, the first of places that stays."""
    sequences = sorted({number for calls in group.calls.values() for number in calls})
    place = None
    for number in sequences:
        made = {rank: calls[number] for rank, calls in group.calls.items() if number in calls and _known(calls[number])}
        if len(made) < 2:
            continue
        what = _what(made)
        if what is not None:
            return _difference(group, number, what, made, _keys(made, what), flights)
        if place is None:
            sites = {rank: _site(calls) for rank, calls in made.items()}
            if None not in sites.values() and len(set(sites.values())) > 1:
                place = _difference(group, number, "call-site", made, sites, flights)
    # The branches of a program call from several places; only a difference that shifts what follows means anything.
    return place if place is not None and place.shift else None


def _known(calls: tuple[Call, ...]) -> bool:
    """Return whether it is told what was called: of a number alone it is not known whether it differs."""
    return all(call.name != NUMBER_ALONE for call in calls)


def _what(made: dict[int, tuple[Call, ...]]) -> What | None:
    return next((what for what in SUBSTANCE if len(set(_keys(made, what).values())) > 1), None)


def _keys(made: dict[int, tuple[Call, ...]], what: What) -> dict[int, object]:
    if what == "operation":
        return {rank: tuple(sorted(call.name for call in calls)) for rank, calls in made.items()}
    even = {
        rank: [call for call in calls if not any(word in call.name for word in UNEVEN)] for rank, calls in made.items()
    }
    if any(len(calls) != 1 for calls in made.values()):
        return dict.fromkeys(made)
    if what == "size":
        return {rank: tuple(_elements(call) for call in calls) for rank, calls in even.items()}
    return {rank: tuple(call.dtypes for call in calls) for rank, calls in even.items()}


def _elements(call: Call) -> int:
    total = 0
    for size in call.sizes:
        count = 1
        for length in size:
            count *= length
        total += count
    return total


def _site(calls: tuple[Call, ...]) -> tuple[str, int | None] | None:
    frame = own_frame(calls[0].frames)
    return (frame.path, frame.line) if frame else None


def _difference(
    group: GroupState,
    number: int,
    what: What,
    made: dict[int, tuple[Call, ...]],
    keys: Mapping[int, object],
    flights: Mapping[int, Flight],
) -> Difference:
    sides: dict[object, list[int]] = {}
    for rank, key in keys.items():
        sides.setdefault(key, []).append(rank)
    ordered = sorted(sides.values(), key=lambda ranks: (len(ranks), ranks))
    most = ordered[-1]
    clear = len(most) > HALF * len(made)
    minority = tuple(sorted(rank for ranks in ordered[:-1] for rank in ranks)) if clear else ()
    first = [ranks[0] for ranks in ordered]
    return Difference(
        group=group.label,
        sequence=number,
        what=what,
        minority=minority,
        majority=tuple(sorted(most)) if clear else (),
        sides=tuple(tuple(ranks) for ranks in ordered),
        said=tuple(_said(made[rank]) for rank in first),
        places=tuple(own_frame(made[rank][0].frames) for rank in first),
        shift=_shift(made, minority, most[0], flights) if clear else None,
        time=min((call.created for calls in made.values() for call in calls if call.created), default=None),
    )


def _said(calls: tuple[Call, ...]) -> str:
    call = calls[0]
    sizes = " ".join("x".join(map(str, size)) or "scalar" for size in call.sizes[:3])
    more = f" and {len(calls) - 1} more" if len(calls) > 1 else ""
    return f"{call.name}({', '.join(filter(None, (sizes, '/'.join(dict.fromkeys(call.dtypes)))))}){more}"


def _shift(
    made: dict[int, tuple[Call, ...]], minority: tuple[int, ...], other: int, flights: Mapping[int, Flight]
) -> str | None:
    """Say whether a rank of the minority left a call out or made one too many: then what follows matches again, shifted by one.

    All calls of the two ranks are compared in the order in which they were made, whatever their groups are called.
    """
    theirs = _following(made[other][0], flights[other])
    for rank in minority:
        own = _following(made[rank][0], flights[rank])
        left_out, too_many = _matches(own, theirs[1:]), _matches(own[1:], theirs)
        call = made[other][0] if left_out > too_many else made[rank][0]
        place = f"{call.name} of {written(own_frame(call.frames))}"
        if left_out > too_many:
            return f"rank {rank} left out the {place}"
        if too_many > left_out:
            return f"rank {rank} called the {place}, which the others did not"
    return None


def _following(call: Call, flight: Flight) -> list[object]:
    start = flight.calls.index(call)
    return [(one.name, _elements(one), _site((one,))) for one in flight.calls[start : start + 64]]


def _matches(left: list[object], right: list[object]) -> int:
    """Count calls that agree from the beginning to where one side ends; 0 if any does not."""
    pairs = list(zip(left, right, strict=False))
    return len(pairs) if all(one == other for one, other in pairs) else 0
