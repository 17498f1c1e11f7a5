"""The case: what was read, put into order: events with their meaning, whom they are about, when they began."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import msgspec

from preflight.investigate.case.containers import without_stopped
from preflight.investigate.case.handed_on import handed_on_in
from preflight.investigate.case.numbering import given_twice
from preflight.investigate.case.people import People
from preflight.investigate.case.wrapped import without_passed
from preflight.investigate.flight.votes import FlightEvidence
from preflight.investigate.stacks.grouping import StackEvidence
from preflight.vocabulary.incident import Clock, Quote
from preflight.vocabulary.log import DATED, Ending, Hit, LogFile, NodeEvent, Place, Raised, Reading, StepLine
from preflight.vocabulary.signature import Category, Role, Signature

if TYPE_CHECKING:
    from preflight.investigate.culprit.members import Stood

_Told = TypeVar("_Told")

_WRITTEN = {"progress.results-saved", "progress.evaluation", "progress.checkpoint-saved"}

# How far clocks of nodes are taken to be apart that no marker joins, in seconds.
UNKNOWN_SKEW = 2.0


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
        return self.hit.place


def waited_for_in(hit: Hit) -> str:
    """Return what a line that tells who came says they came for: its last word before that."""
    before = hit.text.partition("[ready ranks")[0].split()
    return before[-1] if before else ""


class Case:
    """What is known of a run, or of one attempt of it."""

    def __init__(self, reading: Reading, signatures: Mapping[str, Signature], people: People | None = None) -> None:
        """Keep the reading and find out who is who."""
        self.reading = reading
        self.signatures = signatures
        self.people = people or People(reading)
        # What the kernel and others say of a node, by its place: it knows the card and the process that a line is about.
        self.of_nodes = {event.hit.place: event for event in reading.events}
        self.handed_on = handed_on_in(reading)
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
        self.left_out: dict[int, tuple[tuple[int, ...], Stood]] | None = None
        self.endings: tuple[Ending, ...] = without_passed(without_stopped(reading), reading)
        self._stretches: dict[tuple[int | None, int], tuple[list[int], list[int]]] = {}

    def quote(self, hit: Hit) -> Quote:
        """Return a line with its place."""
        return Quote(self.path(hit.file), hit.line, hit.text)

    def path(self, file: int | None) -> str:
        """Return the path of a file."""
        found = self.files.get(file) if file is not None else None
        return found.path if found is not None else "?"

    @cached_property
    def steps_in(self) -> dict[int, list[StepLine]]:
        """The steps by the file that tells them."""
        return by_file(self.steps, lambda one: one.file)

    @cached_property
    def work_done_in(self) -> frozenset[int]:
        """The files that tell that a run is done, or that it wrote down what it found."""
        done = {name for name, one in self.signatures.items() if one.marks == "end"} | _WRITTEN
        return frozenset(hit.file for hit in self.reading.hits if hit.signature in done)

    @cached_property
    def waited_for(self) -> dict[tuple[int, str], int]:
        """The last line of each file that tells who has come for one and the same thing, by what stands before that."""
        lines: dict[tuple[int, str], int] = {}
        for hit in self.reading.hits:
            if "came" in hit.fields:
                key = (hit.file, waited_for_in(hit))
                lines[key] = max(hit.line, lines.get(key, 0))
        return lines

    @cached_property
    def farthest(self) -> int:
        """The highest rank that any line tells to have come; -1 where none does."""
        came = (hit.fields.get("came") for hit in self.reading.hits)
        return max((max(one, default=-1) for one in came if isinstance(one, tuple)), default=-1)

    @cached_property
    def ranks_given_twice(self) -> bool:
        """Whether two tasks, or two nodes, announce the same rank: asked of each line that warns of it, looked for once."""
        return given_twice(self.reading.hits, self.signatures)

    def lines_behind(self, hit: Hit) -> int:
        """Return how many lines of its file stand behind a line."""
        found = self.files.get(hit.file)
        return (found.lines if found is not None else 0) - hit.line

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
                    for key in {(one.who.rank, one.file), (None, one.file)}:
                        lines, numbers = self._stretches.setdefault(key, ([], []))
                        lines.append(one.line)
                        numbers.append(one.step)
        for key in ((rank, file), (None, file)):
            lines, numbers = self._stretches.get(key, ([], []))
            at = bisect_right(lines, line) - 1
            if at >= 0:
                return numbers[at]
        return None


def by_file(told: Iterable[_Told], file: Callable[[_Told], int]) -> dict[int, list[_Told]]:
    """Return what was told, in its order, by the file that it stands in: of thousands nobody looks through all for each."""
    found: dict[int, list[_Told]] = {}
    for one in told:
        found.setdefault(file(one), []).append(one)
    return found


def _times(reading: Reading) -> Iterator[float | None]:
    yield from (hit.time for hit in reading.hits)
    yield from (step.time for step in reading.steps)
    yield from (ending.time for ending in reading.endings)
    yield from (file.last_time for file in reading.files)
