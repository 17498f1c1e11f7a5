"""The dumps of the Flight Recorder and the counters of watchdogs, as evidence and as an event."""

from __future__ import annotations

import re

import msgspec

from preflight.investigate.case.case import Case, Event
from preflight.investigate.case.excerpts import is_excerpt
from preflight.investigate.flight.votes import FlightEvidence, votes_of_flights
from preflight.investigate.stacks.grouping import StackEvidence, votes_of_one, votes_of_stacks
from preflight.vocabulary.log import Hit
from preflight.vocabulary.signature import Cause, Signature

FEWEST = 3
"""Of two ranks, one computes now and then while the other waits for it."""
_FRAME = re.compile(r'\s*File ".*", line \d+ in ')


def recorded(case: Case) -> FlightEvidence | None:
    """Return what dumps and counters say together; None where there are none. A dump comes before a rank's counters."""
    if case.flight is None:
        from preflight.investigate.flight.from_logs import flights_of_hits

        dumps = case.reading.flights
        have = {case.people.rank_of(flight.who, flight.file) for flight in dumps}
        told = [one for one in flights_of_hits(case.reading.hits) if one.who.rank not in have]
        flights = (*dumps, *told)
        world = case.people.world
        case.flight = (
            votes_of_flights(
                flights,
                world_size=world,
                files=case.reading.files,
                partly=not dumps and is_excerpt(case, {one.file for one in told}),
            )
            if flights
            else FlightEvidence()
        )
        if not dumps:
            case.flight = _without_gaps(case, case.flight, len(told))
    return case.flight if case.flight.ranks or case.flight.text else None


def stacked(case: Case) -> StackEvidence | None:
    """Return what the stacks of the ranks say together; None where there are none."""
    if not case.reading.stacks:
        return None
    if case.stacks is None:
        groups = {name: members for flight in case.reading.flights for name, members in flight.groups.items()}
        case.stacks = votes_of_stacks(case.reading.stacks, groups=groups, files=case.reading.files)
    return case.stacks


def printed(case: Case) -> StackEvidence | None:
    """Return what the stacks say that programs printed into their own logs (faulthandler, py-spy); None where there are none.

    They are of the time that counts only where a rank told no step behind them. Where one rank alone has some, they tell of it only
    where it stands outside of what ranks wait in.
    """
    from preflight.investigate.hang.logged import SIGNATURE, logged_stacks

    if case.printed is None:
        people = case.people
        hits = [hit for hit in case.reading.hits if hit.signature == SIGNATURE]
        begins = {(hit.file, people.rank_of(hit.who, hit.file)): hit.line for hit in hits}
        outlived = {
            (step.file, rank)
            for step in (case.steps if begins else ())
            if step.line > begins.get((step.file, rank := people.rank_of(step.who, step.file)), step.line)
        }
        told = []
        for stack in logged_stacks(case.reading) if begins else ():
            rank = people.rank_of(stack.who, stack.file)
            if rank is not None and (stack.file, rank) not in outlived:
                told.append(msgspec.structs.replace(stack, who=msgspec.structs.replace(stack.who, rank=rank)))
        several = len({stack.who.rank for stack in told}) > 1
        judged = votes_of_stacks if several else votes_of_one
        case.printed = judged(told, files=case.reading.files) if told else StackEvidence()
    return case.printed if case.printed.ranks else None


def stack_events(case: Case) -> tuple[Event, ...]:
    """Return an event where stacks of several ranks were taken and some do otherwise than most: somebody saw it hang."""
    evidence = stacked(case) or (printed(case) if _ends_with_stacks(case) else None)
    if evidence is None or evidence.text is None or not evidence.outliers:
        return ()
    most = evidence.dominant
    if not case.reading.stacks and (most is None or not (most.communicating or most.backward)):
        return ()
    file = case.reading.stacks[0].file if case.reading.stacks else None
    hit = Hit(signature=_STUCK.id, file=file if file is not None else -1, line=0, offset=0, text=evidence.text)
    return (
        Event(id=_STUCK.id, title=f"{_STUCK.title}: {evidence.text}", category=_STUCK.category, role="cascade", hit=hit,
              signature=_STUCK, attempt=case.number),
    )  # fmt: skip


def _ends_with_stacks(case: Case) -> bool:
    """Return whether the last thing that three ranks and more have printed is a stack, as of a timer that was set for a hang.

    Programs that print their stacks now and then go on after the first one.
    """
    from preflight.investigate.hang.logged import SIGNATURE

    first: dict[int, int] = {}
    for hit in case.reading.hits:
        if hit.signature == SIGNATURE:
            first.setdefault(hit.file, hit.line)
    if any(step.line > first.get(step.file, step.line) for step in case.steps):
        return False
    files = [file for file in case.reading.files if file.index in first and case.people.rank_of(file.who) is not None]
    return len(files) >= FEWEST and all(_FRAME.match(file.last_text) for file in files)


def _without_gaps(case: Case, evidence: FlightEvidence, told: int) -> FlightEvidence:
    """Return evidence without the ranks of which nothing is there, where lines of a few are all there is: more may be silent.

    Jobs are mostly of a power of two, and nothing tells how many ranks there are.
    """
    world = case.people.world or 0
    if case.reading.world_size is not None or told >= FEWEST or world & (world - 1) == 0:
        return evidence
    kept = tuple(one for one in evidence.ranks if one.rank not in evidence.no_dump)
    return msgspec.structs.replace(evidence, ranks=kept)


_SIGNATURE = Signature(
    id="flight.waiting", title="ranks wait for each other in a collective", category="network", role="cascade",
    literals=("flight",), match=("flight",), no_match=("",),
    causes=(
        Cause("collective-mismatch", "ranks call different collectives, or one of them a collective less", 0.4, "usercode",
              ("stacks",)),
        Cause("peer-dead", "a rank ended or was killed, and the others waited for it", 0.3, "other", ("exit-codes",)),
        Cause("broken-link", "a link, a card or a switch does not pass data", 0.15, "network", ("link-counters",)),
    ),
)  # fmt: skip
_STUCK = Signature(
    id="stacks.waiting", title="ranks wait in a call in which others do not take part", category="network", role="cascade",
    literals=("stacks",), match=("stacks",), no_match=("",),
    causes=(
        Cause("slow-rank", "a rank is busy with something else, or stuck in it", 0.3, "other", ("stacks",)),
        *_SIGNATURE.causes,
    ),
)  # fmt: skip
_DIFFER = Signature(
    id="flight.different-calls", title="ranks made different calls", category="usercode", role="root",
    literals=("flight",), match=("flight",), no_match=("",),
    causes=(Cause("collective-mismatch", "the ranks take different ways through the program", 0.9, None, ("stacks",)),),
)  # fmt: skip


def _lines_differ(case: Case, evidence: FlightEvidence) -> bool:
    """Return whether watchdogs of most ranks name one call and those of a few another of the same number in the same group."""
    from preflight.investigate.flight.from_logs import ranks_that_name_groups

    one = next((one for one in evidence.differences if one.what != "call-site"), None)
    if one is None or not one.minority:
        return False
    return {*one.minority, *one.majority} <= ranks_that_name_groups(case.reading.hits)


def flight_events(case: Case) -> tuple[Event, ...]:
    """Return what dumps show as an event: a difference of calls names a cause, waiting alone is a symptom.

    Of the lines of watchdogs, which show waiting anyway, only a difference is one.
    """
    evidence = recorded(case)
    if evidence is None or evidence.text is None or not (case.reading.flights or _lines_differ(case, evidence)):
        return ()
    differ = evidence.category == "usercode" and bool(evidence.differences)
    signature = _DIFFER if differ else _SIGNATURE
    first = evidence.ranks[0] if evidence.ranks else None
    quotes = [quote for reason in first.reasons for quote in reason.quotes] if first is not None else []
    indices = {file.path: file.index for file in case.reading.files}
    file = case.reading.flights[0].file if case.reading.flights else None
    file = indices.get(quotes[0].path, file) if quotes else file
    if file is None:
        return ()
    rank = first.rank if differ and first is not None and first.weight > 1.0 else None
    hit = Hit(signature=signature.id, file=file, line=0, offset=0, text=evidence.text)
    return (
        Event(id=signature.id, title=f"{signature.title}: {evidence.text}", category=signature.category,
              role=signature.role, hit=hit, signature=signature, rank=rank,
              node=case.people.node_of.get(rank) if rank is not None else None, attempt=case.number),
    )  # fmt: skip
