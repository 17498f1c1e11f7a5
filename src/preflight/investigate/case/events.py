"""The events of a case: every line that means something, in order, without what a harmless one explains."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set

import msgspec

from preflight.investigate.case.case import Case, Event
from preflight.investigate.case.chains import (
    after_interrupt,
    after_memory,
    handled_by_a_library,
    uncaught,
    while_stopping,
)
from preflight.investigate.case.handed_on import HANDS_ON, NAMES_ITS_RANK
from preflight.investigate.case.launcher_tables import entries_of, of_entry, tables_of
from preflight.investigate.case.own_module import lacking_in, of_own_module
from preflight.investigate.case.told import of_hit, of_node, of_raised, of_unknown, placed_of
from preflight.investigate.case.unexplained import inside, said_of_raised, spans_of
from preflight.investigate.cause.exceptions import from_a_pipe, meaning_of
from preflight.investigate.cause.excerpt import telling
from preflight.source.logs.predicates import not_told_by_the_compiler
from preflight.vocabulary.log import Hit, Place
from preflight.vocabulary.signature import Signature

# So many lines behind the one that says that a checkpoint is written, what breaks off breaks it off.
_NEAR = 3
_OF_A_PART = "progress.pipeline-complete"
"""What is said of a part of a program as well: the whole is done where nearly nothing follows."""
_LAST_WORDS = 5
_LISTED = re.compile(r"^[\s│|]*(?:-{2,}> ?|❱ ?)?\s*\d+ ")
"""A line of a program with its number, as notebooks and ``rich`` show it around a frame."""
# So many lines below a harmless one are explained by it.
_RIGHT_BELOW = 3


def events_of(case: Case) -> tuple[Event, ...]:
    """Return everything that means something, in the order of time where it is known, else of files and lines."""
    reading = case.reading
    stopping, broken_off = while_stopping(reading.raised), after_interrupt(reading.raised)
    found, taken = _of_hits(case, after_memory(reading.raised) | stopping)
    handled = handled_by_a_library(reading.raised)
    found = [
        event
        for event in found
        if event.place not in handled and (event.place not in broken_off or event.category == "preemption")
    ]
    saving = [event for event in found if event.signature is not None and event.signature.marks == "checkpoint"]
    taken |= _handed_on_below(case)
    passed = (
        taken | stopping | broken_off
    )  # once: with thousands of ranks, each of thousands of exceptions is held against it
    found += [
        _while_saving(of_raised(case, raised), saving)
        for raised in uncaught(reading.raised)
        if raised.hit.place not in passed and not_told_by_the_compiler({}, raised.hit.text)
    ]
    # The last line of an exception that was caught, or raised from, says no more than the one that came of it.
    taken.update(event.place for event in found)
    taken.update(one.hit.place for one in reading.raised if one.chained)
    read = taken | {(ending.file or 0, ending.line or 0) for ending in case.endings if ending.code}
    spans, said = spans_of(reading.raised), said_of_raised(reading.raised)
    found += [
        event
        for unknown in reading.unknown
        if unknown.first.place not in read and not inside(unknown.first, spans)
        if (unknown.first.file, unknown.first.text.strip()) not in said
        if (event := of_unknown(case, unknown)) is not None
    ]
    found += [of_node(case, event) for event in reading.events if event.hit.place not in taken]
    return tuple(_left(sorted(found, key=order)))


def _of_hits(case: Case, broken: Set[Place]) -> tuple[list[Event], set[Place]]:
    """Return the lines that signatures took as events, and the places at which nothing is left to be told."""
    hits = case.reading.hits
    tables, entries = tables_of(case.reading), entries_of(case.reading)
    repeated = {id(hit) for hit in hits if hit.text.startswith("  ") and hit.line > tables.get(hit.file, hit.line)}
    said = {hit.signature for hit in hits if id(hit) not in repeated}
    silent = _tell_nothing(case)
    spans, raised = spans_of(case.reading.raised), {one.hit.place: one for one in case.reading.raised}
    lacking = lacking_in(case.reading.raised)
    found: list[Event] = []
    taken: set[Place] = set()
    for hit in hits:
        signature = case.signatures.get(hit.signature)
        if _LISTED.match(hit.text) and inside(hit, spans):  # the text of a program, which may say what it would raise
            taken.add(hit.place)
            continue
        # The table repeats what ranks said, and their ends are read from it; what stands nowhere else is theirs.
        if id(hit) in repeated and (hit.signature in said or hit.signature.startswith(("end.", "elastic."))):
            taken.add(hit.place)
        elif signature is not None and (signature.role, hit.place) not in silent:
            told = of_hit(case, of_entry(entries, hit) if id(hit) in repeated else hit, signature)
            found.append(_with_role(case, of_own_module(told, raised, lacking), signature, broken))
            taken.add(hit.place)
    return found, taken


def _tell_nothing(case: Case) -> set[tuple[str, Place]]:
    """Return the lines, of exceptions and of containers' ends, that signatures of some roles take for what they are not, with those."""
    raised = [one for one in case.reading.raised if one.exception]
    # What an exception says of a beginning or an end is no sign of either.
    found: set[tuple[str, Place]] = {("progress", one.hit.place) for one in raised}
    found |= {
        ("progress", hit.place)
        for hit in case.reading.hits
        if hit.signature == _OF_A_PART and case.lines_behind(hit) > _LAST_WORDS
    }
    for one in raised:
        # What a library calls and what fails is a cause, though a launcher ends with the same words.
        if one.exception.endswith("CalledProcessError") and meaning_of(one).role == "root":
            found |= {("teardown", one.hit.place), ("cascade", one.hit.place)}
        # A pipe between two processes of a machine is no network, though what breaks on both is called the same.
        elif one.exception == "ConnectionResetError" and from_a_pipe(one):
            found.add(("cascade", one.hit.place))
    # What compose stopped as the training was done did not fail, whatever its code is, nor what ended long before a file does.
    told = {(one.file, one.line) for one in case.endings}
    stopped = {(one.file or 0, one.line or 0) for one in case.reading.endings if (one.file, one.line) not in told}
    found |= {(role, place) for role in ("root", "cascade", "teardown") for place in stopped}
    return found


def _with_role(case: Case, told: Event, signature: Signature, broken: Set[Place]) -> Event:
    """Return an event with the role that it has by what stands around it."""
    if signature.root_when == "ranks-given-twice" and case.ranks_given_twice:
        return msgspec.structs.replace(told, role="root")
    of_others = told.id == NAMES_ITS_RANK and told.rank is not None and told.rank not in told.accused
    if told.role == "root" and (told.place in broken or of_others):
        return msgspec.structs.replace(told, role="cascade")
    return told


def _handed_on_below(case: Case) -> set[Place]:
    """Return the lines of launchers and drivers that say no more than what a process of theirs says itself."""
    ends = {(ending.file or 0, ending.line or 0) for ending in case.reading.endings if ending.teller == "spawn"}
    last: dict[int, int] = {}
    for file, line in case.handed_on:
        last[file] = max(line, last.get(file, line))
    # Where what a worker raised stands below it, what hands it on says no more.
    return ends | {
        hit.place for hit in case.reading.hits if hit.signature in HANDS_ON and last.get(hit.file, hit.line) > hit.line
    }


def events_of_excerpts(case: Case, known: Sequence[Event]) -> list[Event]:
    """Return the lines of short texts that speak of trouble, for where nothing else was recognized than what is harmless."""
    near = range(-_RIGHT_BELOW, _RIGHT_BELOW + 1)
    harmless = {(event.hit.file, event.hit.line + off) for event in known for off in near}
    found = []
    for file in case.reading.files:
        if file.index in case.steps_in:
            continue
        for line, text, category, role in telling(file):
            if (file.index, line) in harmless:
                continue
            hit = Hit(signature="", file=file.index, line=line, offset=0, text=text, who=file.who)
            rank, node = placed_of(case, hit)
            found.append(Event(
                id="unknown.line", title=text.strip()[:200], category=category, role=role, hit=hit, rank=rank, node=node,
                specific=False, guessed=True,
            ))  # fmt: skip
    return found


def _while_saving(event: Event, saving: Sequence[Event]) -> Event:
    """Return an exception of which nothing tells what it is as one of the checkpoint that was written just before it."""
    if event.raised is None or event.raised.exception or event.category != "other" or event.role != "cascade":
        return event
    near = any(one.hit.file == event.hit.file and 0 < event.hit.line - one.hit.line <= _NEAR for one in saving)
    return msgspec.structs.replace(event, category="checkpoint") if near else event


def _left(events: Sequence[Event]) -> Iterator[Event]:
    """Return the events without those that a harmless line, or one right above them, explains.

    Nor are those returned of which another signature says the same of the same line, and more of what it was.
    """
    said = {
        (*event.place, event.role, name)
        for event in events
        if event.signature is not None
        for name in event.signature.supersedes
    }
    explained = {
        (event.hit.file, event.hit.line + below, name)
        for event in events
        if event.signature is not None and event.role == "benign"
        for name in event.signature.supersedes
        for below in range(_RIGHT_BELOW + 1)
    }
    return (
        event
        for event in events
        if (*event.place, event.role, event.id) not in said
        and ((*event.place, event.id) not in explained or _led_on(event, events))
    )


def _led_on(event: Event, events: Sequence[Event]) -> bool:
    """Return whether what an event usually leads to stands right below it: then it was not harmless after all."""
    followed = event.signature.supersedes if event.signature is not None else ()
    file, line = event.place
    return any(
        one.id in followed and one.hit.file == file and 0 < one.hit.line - line <= _RIGHT_BELOW for one in events
    )


def order(event: Event) -> tuple[float, int, int]:
    """Return what events are put into order by: their time, where they have one, and their place."""
    return (event.time if event.time is not None else float("inf"), *event.place)
