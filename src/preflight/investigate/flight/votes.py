"""What the Flight Recorder says of each rank, as reasons with weights.

``votes_of_flights(flights, world_size=..., files=...)`` returns a ``FlightEvidence``: ``ranks`` has one ``RankEvidence`` for each rank
that something speaks for or against, the weightiest first, with ``Reason``s whose weights are natural logarithms of likelihood
ratios of "this rank began it"; ``differences`` and ``circle`` tell of mismatched calls and of ranks that wait for each other;
``category`` is what it looks like (``usercode`` for mismatched calls), or None; ``text`` is the whole in one sentence, or None
where nothing hangs. Ranks of which the logs alone tell ("last enqueued work") go in as ``from_logs.flights_of_hits(hits)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from preflight.investigate.flight.frames import own_frame, written
from preflight.investigate.flight.groups import GroupState, by_rank, groups_of
from preflight.investigate.flight.mismatch import Difference, differences
from preflight.investigate.flight.waiting import ONE_SIDED, Wait, circle, flow, waits_of
from preflight.investigate.rank_evidence import RankEvidence, evidence_of, ranks_written
from preflight.vocabulary.incident import Quote, Reason
from preflight.vocabulary.log import Flight, LogFile
from preflight.vocabulary.quantity import format_share
from preflight.vocabulary.signature import Category

# Natural logarithms of likelihood ratios. The rank that the waiting of all the others ends at is the culprit in nearly every
# recorded hang (8 of 8 faulted ranks of four sets of 16 ranks): 0.9 against 0.03.
SINK = 3.4
# A rank without a dump, among others that wrote one: killed, stopped or cut off, or the file was lost; 0.8 against 0.04.
NO_DUMP = 3.0
# Where more than half of the ranks have none, that says little.
MOST_LOST = 0.15
# What watchdogs printed into an excerpt: the line of one more rank may stand beyond it.
OF_AN_EXCERPT = 0.4
# Beside such a rank, one that stands still may have stopped because of it: gloo counts a call that failed as finished.
BESIDE_NO_DUMP = 0.4
# One that made another call than most at the first difference: 0.9 against 0.02.
MINORITY = 3.8
# Where as many ranks called one thing as the other, one side is right.
TIE = 0.7
# A rank that waits for others is seldom the one: 0.1 against 0.6.
VICTIM = -1.8
# Everyone arrived: a device or the wire, and no rank more than another.
ARRIVED = 0.3


class FlightEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """What all dumps say together."""

    ranks: tuple[RankEvidence, ...] = ()
    differences: tuple[Difference, ...] = ()
    circle: tuple[int, ...] = ()
    waits: tuple[Wait, ...] = ()
    no_dump: tuple[int, ...] = ()
    category: Category | None = None
    text: str | None = None
    notes: tuple[str, ...] = ()


def votes_of_flights(
    flights: Sequence[Flight], *, world_size: int | None = None, files: Iterable[LogFile] = (), partly: bool = False
) -> FlightEvidence:
    """Return what the dumps of the ranks say of each of them; ``partly`` says that lines of an excerpt are all that there is."""
    chosen = by_rank(flights)
    paths = {file.index: file.path for file in files}
    if not chosen:
        return FlightEvidence()
    # Ranks are numbered from 0 without a gap: where the size of the job is not known, they go to the last one seen.
    ranks = _ranks(chosen, world_size or max(chosen) + 1)
    groups = groups_of(chosen, world_size or len(ranks))
    waits = waits_of(chosen, groups, ranks)
    found = differences(groups, chosen)
    strong = next((one for one in found if one.what != "call-site"), None) or next(iter(found), None)
    around = circle(waits)
    shares = flow(waits)
    reasons: dict[int, list[Reason]] = {rank: [] for rank in ranks}
    _of_mismatch(strong, chosen, paths, reasons)
    kept = _without_arrived(waits, strong)
    _of_waiting(kept, {rank: share for rank, share in shares.items() if rank in kept}, chosen, paths, reasons,
                scale=0.25 if strong and strong.what != "call-site" else 1.0, partly=partly)  # fmt: skip
    evidence = evidence_of(reasons, shares)
    return FlightEvidence(
        ranks=evidence,
        differences=found,
        circle=around,
        waits=tuple(wait for wait in waits.values() if wait.call is not None or shares.get(wait.rank)),
        no_dump=tuple(rank for rank, wait in waits.items() if wait.end == "no-dump"),
        category="usercode" if strong is not None or around else None,
        text=_text(strong, around, evidence, waits),
        notes=_notes(chosen, groups, waits),
    )


def _ranks(chosen: dict[int, Flight], world_size: int) -> list[int]:
    known = {rank for flight in chosen.values() for members in flight.groups.values() for rank in members}
    return sorted({*known, *chosen, *range(world_size)})


def _quote(rank: int, chosen: dict[int, Flight], paths: dict[int, str], text: str) -> tuple[Quote, ...]:
    flight = chosen.get(rank)
    path = paths.get(flight.file) if flight is not None else None
    return (Quote(path, 0, text),) if path else ()


def _of_mismatch(
    one: Difference | None, chosen: dict[int, Flight], paths: dict[int, str], reasons: dict[int, list[Reason]]
) -> None:
    if one is None:
        return
    certain = 1.0 if one.what != "call-site" else 0.6
    for side, said, place in zip(one.sides, one.said, one.places, strict=True):
        for rank in side:
            if one.minority and rank not in one.minority:
                continue
            others = one.said[-1] if one.minority else "another call on as many ranks"
            there = f", at {written(one.places[-1])}" if one.minority and one.places[-1] else ""
            here = f" at {written(place)}" if place else ""
            text = f"call {one.sequence} of {one.group} is {said}{here} on rank {rank}, and {others}{there} on {ranks_written(one.majority)}"
            if not one.minority:
                text = f"call {one.sequence} of {one.group} is {said}{here} on rank {rank}; as many ranks made another"
            weight = (MINORITY if one.minority else TIE) * certain / max(len(one.minority), 1) ** 0.5
            reasons[rank].append(
                Reason(
                    text=f"{text}; {one.shift}" if one.shift and one.minority and rank == one.minority[0] else text,
                    weight=round(weight, 3),
                    quotes=_quote(rank, chosen, paths, f"{one.group} call {one.sequence}: {said}"),
                )
            )
    for rank in one.majority:
        reasons[rank].append(
            Reason(text=f"call {one.sequence} of {one.group} is the same as on most ranks", weight=-0.5 * certain)
        )


def _without_arrived(waits: dict[int, Wait], one: Difference | None) -> dict[int, Wait]:
    """Leave out who waits in a call that ranks made differently: nobody arrived in it together."""
    if one is None:
        return waits
    return {
        rank: wait
        for rank, wait in waits.items()
        if wait.end != "all-arrived"
        or wait.call is None
        or (wait.group, wait.call.sequence) != (one.group, one.sequence)
    }


def _of_waiting(
    waits: dict[int, Wait],
    shares: dict[int, float],
    chosen: dict[int, Flight],
    paths: dict[int, str],
    reasons: dict[int, list[Reason]],
    scale: float,
    partly: bool = False,
) -> None:
    if not shares:
        return
    most = max(shares.values())
    few = 2 * sum(wait.end == "no-dump" for wait in waits.values()) > len(waits)
    lost = max((share for rank, share in shares.items() if waits[rank].end == "no-dump"), default=0.0)
    ends = {rank for rank in shares if waits[rank].end is not None or shares[rank] >= 0.999 * most}
    words: dict[tuple[int, ...], str] = {}
    for rank, wait in waits.items():
        share = shares.get(rank, 0.0)
        call = f"{wait.call.name} {wait.call.sequence} of {wait.group}" if wait.call else ""
        if share <= 0.0 or rank not in ends:
            if wait.behind or wait.elsewhere:
                others = wait.behind or wait.elsewhere
                if others not in words:
                    words[others] = ranks_written(others)
                text = f"it waits in {call} for {words[others]}"
                quotes = _quote(rank, chosen, paths, f"{call}: {wait.call.state if wait.call else ''}")
                guessed = partly and all(waits[one].end == "no-dump" for one in wait.behind or wait.elsewhere)
                weight = round(VICTIM * scale * (OF_AN_EXCERPT if guessed else 1.0), 3)
                reasons[rank].append(Reason(text=text, weight=weight, quotes=quotes))
            continue
        weight, text = _end(wait, share, waits, call)
        if few and wait.end == "no-dump":
            weight, text = weight * MOST_LOST, f"{text}; but so did most ranks: their dumps may not have been collected"
        if partly and wait.end == "no-dump":
            if sum(other.end != "no-dump" for other in waits.values()) < 2:
                continue  # of what one rank alone says, nobody knows who the others are
            weight, text = weight * OF_AN_EXCERPT, f"no word of its watchdog is here, as of others; {ends_of(share)}"
        if wait.end == "idle" and lost >= 0.999 * share:
            weight, text = weight * BESIDE_NO_DUMP, f"{text}; it may have stopped because of a rank that wrote no dump"
        # Several ends share the waiting: each is as suspect as one alone would be, weighed by its part of the largest.
        part = (share / most) ** 0.5 if wait.end != "all-arrived" else 1.0
        quotes = _quote(rank, chosen, paths, f"{call or 'no unfinished call'}")
        reasons[rank].append(Reason(text=text, weight=round(weight * part * scale, 3), quotes=quotes))


def ends_of(share: float) -> str:
    """Return in words how much of the waiting ends at a rank."""
    return f"the waiting of {format_share(share)} of the waiting ranks ends at it"


def _end(wait: Wait, share: float, waits: dict[int, Wait], call: str) -> tuple[float, str]:
    if wait.end == "all-arrived":
        return ARRIVED, f"everyone made the {call} that it is in: a device or the connection holds it"
    waiting = sorted(
        other.rank for other in waits.values() if wait.rank in other.behind or wait.rank in other.elsewhere
    )
    of_it = (
        f"{ranks_written(waiting)} wait{'s' if len(waiting) == 1 else ''} for it"
        if waiting
        else "nobody waits for it directly"
    )
    ends = ends_of(share)
    if wait.end == "no-dump":
        return NO_DUMP, f"it wrote no dump, and {of_it}; {ends}"
    if wait.end == "device":
        return (
            SINK,
            f"its {call} was finished by its peers and not by it: its device or its program stopped there; {ends}",
        )
    if wait.end == "idle":
        return SINK, f"it has finished every call that it made and did not make the next one; {of_it}; {ends}"
    return SINK / 2, f"it waits in {call} in a circle; {of_it}"


def _text(
    one: Difference | None, around: tuple[int, ...], evidence: Sequence[RankEvidence], waits: dict[int, Wait]
) -> str | None:
    if one is not None:
        who = ranks_written(one.minority) if one.minority else "the ranks"
        parts = f"{one.said[0]} against {one.said[-1]}"
        tail = f"; {one.shift}" if one.shift else ""
        return (
            f"{who} differ{'s' if len(one.minority) == 1 else ''} at call {one.sequence} of {one.group}: {parts}{tail}"
        )
    if around:
        return f"{ranks_written(around)} wait for each other in a circle"
    top = [one for one in evidence if one.weight >= max(1.0, evidence[0].weight - 1.5)]
    if top:
        held = sum(1 for wait in waits.values() if wait.behind or wait.elsewhere)
        return f"{held} rank{'' if held == 1 else 's'} wait{'s' if held == 1 else ''}, and the waiting ends at {ranks_written([one.rank for one in top])}"
    stuck = [wait for wait in waits.values() if wait.end == "all-arrived" and wait.call is not None]
    if stuck and stuck[0].call is not None:
        place = own_frame(stuck[0].call.frames)
        at = f" at {written(place)}" if place else ""
        why = "a device or the network"
        if stuck[0].call.name in ONE_SIDED and not stuck[0].call.peer_to_peer:
            why = "the ranks may disagree on the source, which the recorder does not keep, or it is a device or the network"
        return f"every rank made {stuck[0].call.name} {stuck[0].call.sequence} of {stuck[0].group}{at} and it does not end: {why}"
    return None


def _notes(chosen: dict[int, Flight], groups: Sequence[GroupState], waits: dict[int, Wait]) -> tuple[str, ...]:
    notes = []
    missing = [rank for rank, wait in waits.items() if wait.end == "no-dump"]
    if missing:
        notes.append(f"no dump of {ranks_written(missing)}")
    if any(flight.wrapped for flight in chosen.values()):
        notes.append("the recorders do not hold the beginning of the run: an earlier difference cannot be seen")
    if not any(group.sure for group in groups):
        notes.append("the dumps do not list the members of the groups; those seen to use a group are taken for them")
    return tuple(notes)
