"""The case: what was read, put into order: events with their meaning, whom they are about, when they began."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from preflight.investigate.exceptions import meaning_of, meaning_of_line
from preflight.investigate.excerpt import telling
from preflight.investigate.flight.votes import FlightEvidence
from preflight.investigate.node_events import category_of, place_of, role_of
from preflight.investigate.numbering import proven
from preflight.investigate.people import People
from preflight.investigate.stacks.grouping import StackEvidence
from preflight.source.logs.predicates import not_told_by_the_compiler
from preflight.vocabulary.incident import Clock, Quote
from preflight.vocabulary.log import DATED, Ending, Hit, LogFile, NodeEvent, Raised, Reading, StepLine, Unknown, Who
from preflight.vocabulary.signature import Category, Role, Signature

# How far clocks of nodes are taken to be apart that no marker joins, in seconds.
UNKNOWN_SKEW = 2.0
# So many lines behind the one that says that a checkpoint is written, what breaks off breaks it off.
NEAR = 3
# So many lines below a harmless one are explained by it.
_RIGHT_BELOW = 3
_RAISED = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt)\b")
_HANDS_ON = "elastic.ray-task-error"
_FRAMES = 160
"""Lines that the frames of a worker take, at the most, before what it raised."""
# What is raised so few lines below an exception, in a function that stops something, follows from it.
_CLOSE = 40
_STOPS = re.compile(r"^_*(?:shut_?down|tear_?down|clean_?up|finali[sz]e|destroy|terminate|stop)(?:_\w+)?$")
Place = tuple[int, int]
"""A file and a line of it."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """A line that means something, with its meaning.

    Attributes:
        id: The signature, or ``exception.NAME`` where none took it, or ``node.KIND``.
        rank: Whom it is about, where that is one rank.
        accused: Ranks that it names as the ones that others wait for.
        time: When the trouble began, by the reference clock: shifted by what the line itself says.
        error: Half of the interval in which the time lies.
        specific: Whether a signature took it; an exception that none took says less.
        guessed: It is a single line that nothing took, and counts only where nothing else tells what failed.
    """

    id: str
    title: str
    category: Category
    role: Role
    hit: Hit
    signature: Signature | None = None
    raised: Raised | None = None
    node_event: NodeEvent | None = None
    rank: int | None = None
    node: str | None = None
    accused: tuple[int, ...] = ()
    time: float | None = None
    error: float = 0.0
    attempt: int = 0
    step: int | None = None
    specific: bool = True
    guessed: bool = False

    @property
    def place(self) -> Place:
        """Where it stands."""
        return self.hit.file, self.hit.line


class Case:
    """What is known of a run, or of one attempt of it."""

    def __init__(self, reading: Reading, signatures: Mapping[str, Signature], people: People | None = None) -> None:
        """Keep the reading and find out who is who."""
        self.reading = reading
        self.signatures = signatures
        self.people = people or People(reading)
        # What the kernel and others say of a node, by its place: it knows the card and the process that a line is about.
        self.of_nodes = {(event.hit.file, event.hit.line): event for event in reading.events}
        self.handed_on = _handed_on(reading)
        self.files: dict[int, LogFile] = {file.index: file for file in reading.files}
        self.clocks: dict[str, Clock] = {}
        self._dated = any((time or 0.0) >= DATED for time in _times(reading))
        self.number = 0
        self.raised = reading.raised
        self.flight: FlightEvidence | None = None
        self.stacks: StackEvidence | None = None
        self.printed: StackEvidence | None = None
        self.events: tuple[Event, ...] = ()
        self.steps: tuple[StepLine, ...] = reading.steps
        self.every_step: tuple[StepLine, ...] = reading.steps
        self.speaking: dict[int, tuple[int, int]] | None = None
        self.endings: tuple[Ending, ...] = reading.endings
        self._stretches: dict[tuple[int | None, int], tuple[list[int], list[int]]] = {}

    def quote(self, hit: Hit) -> Quote:
        """Return a line with its place."""
        return Quote(self.path(hit.file), hit.line, hit.text)

    def path(self, file: int | None) -> str:
        """Return the path of a file."""
        found = self.files.get(file) if file is not None else None
        return found.path if found is not None else "?"

    def corrected(self, time: float | None, node: str | None) -> float | None:
        """Return a time by the reference clock; None where it counts from a start that nothing tells (a boot) and others do not."""
        if time is not None and time < DATED and self._dated:
            return None
        clock = self.clocks.get(node) if node is not None else None
        return time if time is None or clock is None else time - clock.ahead

    def clock_error(self, node: str | None) -> float:
        """Return how far a node's corrected time may be off."""
        clock = self.clocks.get(node) if node is not None else None
        if clock is not None:
            return clock.error
        return UNKNOWN_SKEW if len(self.people.nodes) > 1 else 0.0

    def step_before(self, file: int, line: int, rank: int | None) -> int | None:
        """Return the last step that was told before a line, by the rank itself or else in its file."""
        if not self._stretches:
            for one in self.steps:
                if one.step is not None:
                    for key in ((one.who.rank, one.file), (None, one.file)):
                        lines, numbers = self._stretches.setdefault(key, ([], []))
                        lines.append(one.line)
                        numbers.append(one.step)
                    if one.who.rank is None:
                        continue
        for key in ((rank, file), (None, file)):
            lines, numbers = self._stretches.get(key, ([], []))
            at = bisect_right(lines, line) - 1
            if at >= 0:
                return numbers[at]
        return None


def _handed_on(reading: Reading) -> dict[Place, Who]:
    """Return whose lines are that a parent or a driver prints, as it was handed them by a process of which it tells right above."""
    told = {(one.file, one.line): one.about for one in reading.endings if one.teller == "spawn"}
    spans = [
        (one.hit.file, one.begins, one.hit.line, told[one.hit.file, one.begins - 1])
        for one in reading.raised
        if one.begins is not None and (one.hit.file, one.begins - 1) in told
    ]
    said = [*reading.hits, *(one.hit for one in reading.raised), *(one.first for one in reading.unknown)]
    for hit in reading.hits:
        if hit.signature != _HANDS_ON or hit.about is None:
            continue
        below = (
            one.line
            for one in said
            if one.file == hit.file and 0 < one.line - hit.line <= _FRAMES and _RAISED.match(one.text)
        )
        spans.append((hit.file, hit.line, min(below, default=hit.line), hit.about))
    if not spans:
        return {}
    places = [(hit.file, hit.line) for hit in said]
    return {
        (file, line): who
        for of, begin, end, who in spans
        for file, line in places
        if file == of and begin <= line <= end
    }


def _times(reading: Reading) -> Iterator[float | None]:
    yield from (hit.time for hit in reading.hits)
    yield from (step.time for step in reading.steps)
    yield from (ending.time for ending in reading.endings)
    yield from (file.last_time for file in reading.files)


def events_of(case: Case) -> tuple[Event, ...]:
    """Return everything that means something, in the order of time where it is known, else of files and lines."""
    found: list[Event] = []
    taken: set[Place] = set()
    tables = _tables(case)
    inside = {
        id(hit) for hit in case.reading.hits if hit.text.startswith("  ") and hit.line > tables.get(hit.file, hit.line)
    }
    said = {hit.signature for hit in case.reading.hits if id(hit) not in inside}
    entries: dict[int, list[Hit]] = {}
    # What a library calls and what fails is a cause, though a launcher ends with the same words.
    called = {
        (one.hit.file, one.hit.line)
        for one in case.reading.raised
        if one.exception.endswith("CalledProcessError") and meaning_of(one).role == "root"
    }
    stopping = _while_stopping(case.reading.raised)
    broken = _after_memory(case.reading.raised) | stopping
    raised_at = {(one.hit.file, one.hit.line) for one in case.reading.raised if one.exception}
    for hit in case.reading.hits:
        if hit.signature == "elastic.summary" and hit.about is not None:
            entries.setdefault(hit.file, []).append(hit)
    for hit in case.reading.hits:
        signature = case.signatures.get(hit.signature)
        if id(hit) in inside:
            # The table repeats what ranks said, and their ends are read from it; what stands nowhere else is theirs.
            if hit.signature in said or hit.signature.startswith(("end.", "elastic.")):
                taken.add((hit.file, hit.line))
                continue
            hit = _of_entry(entries, hit)
        if signature is not None:
            if signature.role in ("teardown", "cascade") and (hit.file, hit.line) in called:
                continue
            if signature.role == "progress" and (hit.file, hit.line) in raised_at:
                continue  # what an exception says of a beginning or an end is no sign of either
            told = _of_hit(case, hit, signature)
            if told.role == "root" and told.place in broken:
                told = msgspec.structs.replace(told, role="cascade")
            if proven(signature, case.reading.hits, case.signatures):
                told = msgspec.structs.replace(told, role="root")
            found.append(told)
            taken.add((hit.file, hit.line))
    saving = [event for event in found if event.signature is not None and event.signature.marks == "checkpoint"]
    # A launcher raises what it has seen: how a process of it ended.
    taken.update((ending.file or 0, ending.line or 0) for ending in case.reading.endings if ending.teller == "spawn")
    # Where what a worker raised stands below it, what hands it on says no more.
    taken.update(
        (hit.file, hit.line)
        for hit in case.reading.hits
        if hit.signature == _HANDS_ON and any(file == hit.file and line > hit.line for file, line in case.handed_on)
    )
    found += [
        _while_saving(_of_raised(case, raised), saving)
        for raised in _uncaught(case.reading.raised)
        if (raised.hit.file, raised.hit.line) not in taken | stopping and not_told_by_the_compiler({}, raised.hit.text)
    ]
    taken.update(event.place for event in found)
    found += [
        event
        for unknown in case.reading.unknown
        if (unknown.first.file, unknown.first.line) not in taken and (event := _of_unknown(case, unknown)) is not None
    ]
    found += [_of_node(case, event) for event in case.reading.events if (event.hit.file, event.hit.line) not in taken]
    return tuple(_left(sorted(found, key=_order)))


def _left(events: Sequence[Event]) -> Iterator[Event]:
    """Return the events without those that a harmless line, or one right above them, explains."""
    explained = {
        (event.hit.file, event.hit.line + below, name)
        for event in events
        if event.signature is not None and event.role == "benign"
        for name in event.signature.supersedes
        for below in range(_RIGHT_BELOW + 1)
    }
    return (event for event in events if (*event.place, event.id) not in explained or _led_on(event, events))


def _led_on(event: Event, events: Sequence[Event]) -> bool:
    """Return whether what an event usually leads to stands right below it: then it was not harmless after all."""
    followed = event.signature.supersedes if event.signature is not None else ()
    file, line = event.place
    return any(
        one.id in followed and one.hit.file == file and 0 < one.hit.line - line <= _RIGHT_BELOW for one in events
    )


def _order(event: Event) -> tuple[float, int, int]:
    return (event.time if event.time is not None else float("inf"), event.hit.file, event.hit.line)


def _placed(case: Case, hit: Hit) -> tuple[int | None, str | None]:
    """Return the rank and the node that a line is about."""
    people = case.people
    who = hit.about if hit.about is not None else hit.who
    rank = people.rank_of(who, hit.file)
    if rank is None and hit.about is None:
        rank = people.rank_of(case.handed_on.get((hit.file, hit.line)), hit.file)
    if rank is None and hit.about is None:
        told = hit.fields.get("printer")
        rank = told if isinstance(told, int) else people.rank_of(people.files.get(hit.file))
    if rank is None and (event := case.of_nodes.get((hit.file, hit.line))) is not None:
        placed = place_of(event, people)
        return placed.rank, placed.node or people.node_of_who(who, hit.file)
    node = people.node_of.get(rank) if rank is not None else None
    return rank, node or people.node_of_who(who, hit.file)


def _of_hit(case: Case, hit: Hit, signature: Signature) -> Event:
    rank, node = _placed(case, hit)
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
        accused=_accused(hit, signature),
        time=time,
        error=hit.time_error + case.clock_error(node),
        step=case.step_before(hit.file, hit.line, rank),
    )


def _accused(hit: Hit, signature: Signature) -> tuple[int, ...]:
    value = hit.fields.get(signature.points_to) if signature.points_to else None
    if isinstance(value, tuple):
        return value
    return (value,) if isinstance(value, int) and not isinstance(value, bool) else ()


def _tables(case: Case) -> dict[int, int]:
    """Return the line at which the first table of a launcher begins, for each file that holds one."""
    found: dict[int, int] = {}
    for ending in case.reading.endings:
        if ending.teller == "torchrun" and ending.message is not None and None not in (ending.file, ending.line):
            found[ending.file or 0] = min(ending.line or 0, found.get(ending.file or 0, ending.line or 0))
    return found


def _of_entry(entries: Mapping[int, Sequence[Hit]], hit: Hit) -> Hit:
    """Return a line of a launcher's table as that of the rank whose entry it stands in."""
    of_file = entries.get(hit.file, ())
    at = bisect_right([one.line for one in of_file], hit.line) - 1
    return msgspec.structs.replace(hit, who=of_file[at].about or hit.who) if at >= 0 else hit


def _uncaught(raised: Sequence[Raised]) -> Iterator[Raised]:
    """Yield the last exception of each chain: what it was raised from is its cause, and stands before it.

    Where the last one is cut off before its name, the one before it is the last that says what happened.
    """
    for number, one in enumerate(raised):
        after = _raised_after(raised, number)
        if after is None or not after.exception or of_memory(one):
            yield one


def of_memory(raised: Raised) -> bool:
    """Return whether an exception says by its class that memory ran out."""
    return bool(raised.exception) and meaning_of(raised).category == "oom"


def _after_memory(raised: Sequence[Raised]) -> set[Place]:
    """Return the places of exceptions that were raised while one was handled that says that memory ran out."""
    found: set[Place] = set()
    short = False
    for number, one in enumerate(raised):
        if short:
            found.add((one.hit.file, one.hit.line))
        short = (short or of_memory(one)) and _raised_after(raised, number) is not None
    return found


def _while_stopping(raised: Sequence[Raised]) -> set[Place]:
    """Return the places of exceptions that a writer raised while it stopped, close behind another one of its own."""
    found: set[Place] = set()
    last: dict[tuple[int, Who], int] = {}
    for one in raised:
        writer, begins = (one.hit.file, one.hit.who), one.begins if one.begins is not None else one.hit.line
        before = last.get(writer)
        if (
            before is not None
            and begins - before <= _CLOSE
            and any(_STOPS.search(frame.function) for frame in one.frames)
        ):
            found.add((one.hit.file, one.hit.line))
        else:
            last[writer] = one.hit.line
    return found


def _raised_after(raised: Sequence[Raised], number: int) -> Raised | None:
    """Return the exception of the same writer that was raised while one was handled, or from it."""
    one = raised[number]
    after = raised[number + 1] if one.chained and number + 1 < len(raised) else None
    return after if after is not None and after.hit.file == one.hit.file and after.hit.who == one.hit.who else None


def _of_unknown(case: Case, unknown: Unknown) -> Event | None:
    """Return a line that nothing took as an event, where it tells by itself what it is."""
    text = unknown.first.text
    meaning = meaning_of_line(text) if not unknown.warning and not_told_by_the_compiler({}, text) else None
    if meaning is None:
        return None
    hit = unknown.first
    rank, node = _placed(case, hit)
    return Event(
        id="unknown.line", title=meaning.title, category=meaning.category, role=meaning.role, hit=hit, rank=rank, node=node,
        time=case.corrected(hit.time, node), error=hit.time_error + case.clock_error(node), specific=False,
        step=case.step_before(hit.file, hit.line, rank), guessed=True,
    )  # fmt: skip


def _while_saving(event: Event, saving: Sequence[Event]) -> Event:
    """Return an exception of which nothing tells what it is as one of the checkpoint that was written just before it."""
    if event.raised is None or event.raised.exception or event.category != "other" or event.role != "cascade":
        return event
    near = any(one.hit.file == event.hit.file and 0 < event.hit.line - one.hit.line <= NEAR for one in saving)
    return msgspec.structs.replace(event, category="checkpoint") if near else event


def events_of_excerpts(case: Case, known: Sequence[Event]) -> list[Event]:
    """Return the lines of short texts that speak of trouble, for where nothing else was recognized than what is harmless."""
    near = range(-_RIGHT_BELOW, _RIGHT_BELOW + 1)
    harmless = {(event.hit.file, event.hit.line + off) for event in known for off in near}
    found = []
    for file in case.reading.files:
        if any(step.file == file.index for step in case.reading.steps):
            continue
        for line, text, category, role in telling(file):
            if (file.index, line) in harmless:
                continue
            hit = Hit(signature="", file=file.index, line=line, offset=0, text=text, who=file.who)
            rank, node = _placed(case, hit)
            found.append(Event(
                id="unknown.line", title=text.strip()[:200], category=category, role=role, hit=hit, rank=rank, node=node,
                specific=False, guessed=True,
            ))  # fmt: skip
    return found


def _of_raised(case: Case, raised: Raised) -> Event:
    rank, node = _placed(case, raised.hit)
    meaning = meaning_of(raised)
    return Event(
        id=f"exception.{raised.exception.rpartition('.')[2]}",
        title=meaning.title,
        category=meaning.category,
        role=meaning.role,
        hit=raised.hit,
        raised=raised,
        rank=rank,
        node=node,
        time=case.corrected(raised.hit.time, node),
        error=raised.hit.time_error + case.clock_error(node),
        step=case.step_before(raised.hit.file, raised.hit.line, rank),
        specific=False,
    )


def _of_node(case: Case, event: NodeEvent) -> Event:
    hit = event.hit
    placed = place_of(event, case.people)
    rank, node = placed.rank, placed.node
    code = f" {event.code}" if event.code is not None else ""
    return Event(
        id=f"node.{event.kind}",
        title=event.meaning or f"{event.kind}{code}",
        category=category_of(event),
        role=role_of(event),
        hit=hit,
        node_event=event,
        rank=rank,
        node=node,
        time=case.corrected(hit.time, node),
        error=hit.time_error + case.clock_error(node),
    )


def earliest(events: Sequence[Event]) -> Event | None:
    """Return the first event in corrected time; without times the first in its file."""
    return min(events, key=_order, default=None)
