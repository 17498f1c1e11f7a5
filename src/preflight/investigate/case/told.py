"""One line, exception or event of a node as an event: whom it is about, when it was, what it means."""

from __future__ import annotations

import re

from preflight.investigate.case.case import Case, Event, waited_for_in
from preflight.investigate.case.node_events import alike, category_of, place_of, role_of
from preflight.investigate.cause.exceptions import (
    Meaning,
    class_of,
    meaning_of,
    meaning_of_last_error,
    meaning_of_last_line,
    meaning_of_line,
)
from preflight.source.logs.predicates import not_told_by_the_compiler
from preflight.source.logs.steps import step_of
from preflight.vocabulary.log import Hit, NodeEvent, Raised, Unknown
from preflight.vocabulary.signature import Cause, Signature

_IN_WORDS = {"KeyboardInterrupt": "end.keyboard"}
"""Exceptions of Python that say what a signature knows in other words: its causes and its advice are theirs."""

_MISSING = Signature(
    id="node.ras-missing", title="a process does not answer NCCL", category="network", role="confirmation",
    literals=("Process",), match=("Process",), no_match=("",),
    causes=(
        Cause("peer-dead", "the process ended or was killed", 0.5, "other", ("exit-codes", "kernel-log")),
        Cause("node-lost", "its node is down, or cannot be reached", 0.3, "hardware", ("kernel-log", "scheduler-events")),
        Cause("process-stands", "the process stands still, and its thread for NCCL with it", 0.1, "other", ("stacks",)),
    ),
    next=(
        "Look at that process on that node: does it live (ps -p PID -o pid,stat,wchan:30,cmd), what did it print last?",
        "Look into the kernel log of that node at that moment; can the node be reached at all?",
    ),
)  # fmt: skip
"""A communicator of which RAS lacks a process."""


_CAME = "came"
"""The field of a signature in which the ranks are that came, where those are accused that did not."""


def of_hit(case: Case, hit: Hit, signature: Signature) -> Event:
    """Return a line that a signature took as an event."""
    rank, node = placed_of(case, hit)
    if signature.category == "preemption" and "job" in hit.fields:
        rank = None  # a scheduler's word of a whole job, which srun hands on with the label of a task
    time = case.corrected(hit.time, node)
    if time is not None and signature.shift:
        milliseconds = hit.fields.get(signature.shift)
        if isinstance(milliseconds, (int, float)):
            time -= milliseconds / 1000.0
    return Event(
        id=signature.id,
        title=signature.title,
        category=signature.category,
        role=signature.role,
        hit=hit,
        signature=signature,
        rank=rank,
        node=node,
        accused=_accused(hit, signature, case),
        time=time,
        error=hit.time_error + case.clock_error(node),
        step=_step_of(case, hit, rank),
    )


def _step_of(case: Case, hit: Hit, rank: int | None) -> int | None:
    """Return the step of a line: its own where it is the line of a step, of which not all are kept of many, else the last one before."""
    own = step_of(hit.text)
    return own.step if own is not None and own.step is not None else case.step_before(hit.file, hit.line, rank)


def of_raised(case: Case, raised: Raised) -> Event:
    """Return an exception that no signature took as an event."""
    rank, node = placed_of(case, raised.hit)
    meaning = meaning_of(raised)
    name = class_of(raised)
    return Event(
        id=f"exception.{name}",
        title=meaning.title,
        category=meaning.category,
        role=meaning.role,
        hit=raised.hit,
        signature=case.signatures.get(_IN_WORDS.get(name, "")),
        raised=raised,
        rank=rank,
        node=node,
        time=case.corrected(raised.hit.time, node),
        error=raised.hit.time_error + case.clock_error(node),
        step=case.step_before(raised.hit.file, raised.hit.line, rank),
        specific=False,
    )


_NATIVE = re.compile(r"\bframe #\d+: ")
"""A frame of native code: its names and paths say where something happened, and not what."""
_AT_THE_END = 2
"""So many lines at most stand behind the last word of a program."""


def _is_last_word(case: Case, unknown: Unknown) -> bool:
    """Return whether a line of trouble is the only one of its kind, and the last word of a program.

    One that told of steps ended of it only where its logger says that it is an error, and no step stands behind it.
    """
    if unknown.warning or unknown.last != unknown.first.place or unknown.behind > _AT_THE_END:
        return False
    file, line = unknown.first.place
    if file in case.work_done_in:
        return False
    steps = case.steps_in.get(file)
    return not steps or (steps[-1].line < line and meaning_of_last_error(unknown.first.text) is not None)


def of_unknown(case: Case, unknown: Unknown) -> Event | None:
    """Return a line that nothing took as an event, where it tells by itself what it is."""
    text = unknown.first.text
    if _NATIVE.search(text):
        return None
    told_by_program = not_told_by_the_compiler({}, text)
    meaning = meaning_of_line(text) if not unknown.warning and told_by_program else None
    if meaning is None and _is_last_word(case, unknown):
        # What a compiler tells, it goes on without; nothing came behind its last word, and its file is no library that lacks.
        meaning = (
            meaning_of_last_line(text) or meaning_of_last_error(text)
            if told_by_program
            else Meaning(text.strip()[:200], "compile", "root")
        )
    if meaning is None:
        return None
    hit = unknown.first
    rank, node = placed_of(case, hit)
    return Event(
        id="unknown.line", title=meaning.title, category=meaning.category, role=meaning.role, hit=hit, rank=rank, node=node,
        time=case.corrected(hit.time, node), error=hit.time_error + case.clock_error(node), specific=False,
        step=case.step_before(hit.file, hit.line, rank), guessed=True,
    )  # fmt: skip


def of_node(case: Case, event: NodeEvent) -> Event:
    """Return what the kernel or another says of a node as an event."""
    hit = event.hit
    placed = place_of(event, case.people)
    rank, node = placed.rank, placed.node
    code = f" {event.code}" if event.code is not None else ""
    known = alike(event)
    signature = _MISSING if known == _MISSING.id else case.signatures.get(known or "")
    return Event(
        id=f"node.{event.kind}",
        title=event.meaning or f"{event.kind}{code}",
        category=category_of(event),
        role=role_of(event),
        hit=hit,
        node_event=event,
        signature=signature,
        rank=rank,
        node=node,
        time=case.corrected(hit.time, node),
        error=hit.time_error + case.clock_error(node),
    )


def placed_of(case: Case, hit: Hit) -> tuple[int | None, str | None]:
    """Return the rank and the node that a line is about."""
    people = case.people
    who = hit.about if hit.about is not None else hit.who
    rank = people.rank_of(case.handed_on.get(hit.place), hit.file) if hit.about is None else None
    rank = rank if rank is not None else people.rank_of(who, hit.file)
    if rank is None and hit.about is None:
        told = hit.fields.get("printer")
        rank = told if isinstance(told, int) else people.rank_of(people.files.get(hit.file))
    if rank is None and (event := case.of_nodes.get(hit.place)) is not None:
        placed = place_of(event, people)
        return placed.rank, placed.node or people.node_of_who(who, hit.file)
    node = people.node_of.get(rank) if rank is not None else None
    return rank, node or people.node_of_who(who, hit.file)


def _accused(hit: Hit, signature: Signature, case: Case) -> tuple[int, ...]:
    value = hit.fields.get(signature.points_to) if signature.points_to else None
    if value is None and isinstance(came := hit.fields.get(_CAME), tuple):
        # Who had not come yet may have come since: what is told last of a thing counts, and of how many there are all of it.
        if hit.line < case.waited_for.get((hit.file, waited_for_in(hit)), hit.line):
            return ()
        return _left_by(came, max(case.people.world or 0, case.farthest + 1))
    if isinstance(value, tuple):
        return value
    return (value,) if isinstance(value, int) and not isinstance(value, bool) else ()


def _left_by(came: tuple[int, ...], world: int) -> tuple[int, ...]:
    """Return the ranks that are not among those that came, where they are the fewer: ranks are counted without gaps."""
    there = set(came)
    size = max(world, max(there, default=-1) + 1)
    if size - len(there) >= len(there):  # before they are listed: what a damaged line names may be any number
        return ()
    return tuple(sorted(set(range(size)) - there))
