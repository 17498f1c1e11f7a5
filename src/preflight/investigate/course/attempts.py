"""Attempts: the starts of a job that stand in the same logs, told apart."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from itertools import chain

import msgspec

from preflight.investigate.case.case import Case, Event, by_file
from preflight.investigate.cause.category import Decided
from preflight.investigate.course.deaths import REDRAWN, cuts_beside, cuts_of, cuts_of_launchers, cuts_of_requeues
from preflight.investigate.course.state import state_of
from preflight.investigate.culprit.vote import Scene
from preflight.vocabulary.incident import Attempt, Culprit
from preflight.vocabulary.log import Unknown, Who

_FAILING = ("root", "cascade", "confirmation", "teardown")
_AGENT = re.compile(r"[WE]\d{4} \d\d:\d\d:\d\d\.\d+ (\d+) torch/distributed/elastic/")
_OF_AGENTS = ("elastic.closing", "elastic.worker-exit")
_OF_LAUNCHERS = ("elastic.", "exit.", "end.")
_AGAIN = ("start", "resume", "restart")
_ASKED_FOR = ("progress.typed-command", "progress.srun-queued", "progress.job-reported")
"""What a person types or asks a scheduler for may be anything, and may still wait, and the report of a job may be of the last one; a
training starts there where steps stand behind it, or something that goes wrong."""
_MOMENT = 1.0
"""Seconds within which what workers wrote before they were stopped is printed, at the latest."""


class Cuts:
    """Where in each file one attempt ends and the next begins."""

    def __init__(self, whole: Case) -> None:
        """Find the cuts of each file by its own lines, and those of files without any by the clock."""
        self.whole = whole
        self.given = {file.index: file.who.attempt for file in whole.reading.files if file.who.attempt is not None}
        self.first = min(self.given.values(), default=0)
        self.lines = _cuts(whole, set(self.given))
        self._raised = by_file(whole.reading.raised, lambda one: one.hit.file)
        for file, lines in chain(
            cuts_of(whole).items(), cuts_of_launchers(whole).items(), cuts_of_requeues(whole).items()
        ):
            if file not in self.given:
                known = self.lines.get(file, [])
                self.lines[file] = sorted({*known, *(line for line in lines if not self._only_ends(file, line, known))})
        self.lines |= self._of_exits()
        if not self.given:
            self.lines |= cuts_beside(whole, self.lines)
        self.times = self._times()
        known = [attempt - self.first for attempt in self.given.values()]
        self.count = 1 + max([*(len(cuts) for cuts in self.lines.values()), *known], default=0)

    def _of_exits(self) -> dict[int, list[int]]:
        """Return the cuts of an agent's own file, behind each worker that it saw end, where the files of its workers tell the attempts.

        It tells of an end once in each attempt that fails: of all attempts, or of all but the last one.
        """
        count = len(set(self.given.values()))
        if count < 2:
            return {}
        ends: dict[int, list[int]] = {}
        for event in self.whole.events:
            if (
                event.id == "elastic.worker-exit"
                and event.hit.file not in self.given
                and event.hit.file not in self.lines
            ):
                ends.setdefault(event.hit.file, []).append(event.hit.line)
        return {
            file: [line + 1 for line in sorted(lines)[: count - 1]]
            for file, lines in ends.items()
            if len(lines) in (count - 1, count)
        }

    def _only_ends(self, file: int, line: int, known: list[int]) -> bool:
        """Return whether nothing is done between a death and where the next start is cut off anyway: it belongs to the death."""
        place = bisect_left(known, line)
        if place == len(known):
            return False
        done = any(line <= step.line < known[place] for step in self.whole.steps_in.get(file, ()))
        return not done and not any(line <= one.hit.line < known[place] for one in self._raised.get(file, ()))

    def _times(self) -> list[float]:
        """Return when each attempt after the first began, by the earliest line of it that bears a time."""
        began: dict[int, float] = {}
        for place, who, time in _timed(self.whole):
            number = self._by_line(place, who)
            if number and time is not None:
                began[number] = min(began.get(number, time), time)
        return [began[number] for number in sorted(began)]

    def _by_line(self, place: tuple[int, int], who: Who | None) -> int | None:
        file, line = place
        for attempt in (who.attempt if who is not None else None, self.given.get(file)):
            if attempt is not None:
                return attempt - self.first
        return bisect_right(self.lines[file], line) if file in self.lines else None

    def of(self, place: tuple[int, int] | None, time: float | None, who: Who | None = None) -> int:
        """Return the number of the attempt, from 0; what tells neither place nor time belongs to the last one."""
        found = self._by_line(place, who) if place is not None else None
        if found is not None:
            return min(found, self.count - 1)
        if time is not None and self.times:
            return min(bisect_right(self.times, time), self.count - 1)
        return self.count - 1

    def within(self, unknown: Unknown) -> Unknown:
        """Return lines of trouble with how many lines of their own attempt stand behind them."""
        file, line = unknown.last
        cuts = self.lines.get(file, [])
        at = bisect_right(cuts, line)
        behind = min(unknown.behind, cuts[at] - line - 1) if at < len(cuts) else unknown.behind
        return msgspec.structs.replace(unknown, behind=behind)


def _timed(whole: Case) -> Iterable[tuple[tuple[int, int], Who, float | None]]:
    for event in whole.events:
        yield event.place, event.hit.who, event.time
    for step in whole.steps:
        yield (
            (step.file, step.line),
            step.who,
            whole.corrected(step.time, whole.people.placed(step.who, step.file)[1]),
        )


def _cuts(whole: Case, given: set[int]) -> dict[int, list[int]]:
    """Return the lines at which a further attempt begins, for each file that has some."""
    told: dict[int, list[tuple[int, Event | int, int | None]]] = {}
    for event in whole.events:
        mark = event.signature.marks if event.signature is not None else None
        if event.hit.file not in given and (mark in _AGAIN or event.role in _FAILING):
            told.setdefault(event.hit.file, []).append((event.hit.line, event, event.rank))
    for step in whole.steps:
        if step.step is not None and step.file not in given:
            rank = whole.people.placed(step.who, step.file)[0]
            told.setdefault(step.file, []).append((step.line, step.step, rank))
    found = {}
    for file, moments in told.items():
        moments.sort(key=lambda one: one[0])
        held_back = _held_back(moments) if len(whole.people.seen) > 1 else {}
        known = {*_of_file(moments, held_back), *_between_jobs(moments)}
        cuts = sorted({*known, *_of_agents(moments, known, len(whole.people.nodes) > 1)})
        if cuts:
            found[file] = cuts
    return found


def _between_jobs(moments: list[tuple[int, Event | int, int | None]]) -> list[int]:
    """Return the lines behind those in which a scheduler ends one job, where it ends another one later."""
    cuts: list[int] = []
    ended: tuple[str, int] | None = None
    for line, what, _ in moments:
        job = what.hit.fields.get("job") if isinstance(what, Event) and what.category == "preemption" else None
        if not isinstance(job, str):
            continue
        name = job.partition(".")[0]
        if ended is not None and ended[0] != name:
            cuts.append(ended[1] + 1)
        ended = (name, line)
    return cuts


def _of_agents(moments: list[tuple[int, Event | int, int | None]], known: set[int], several: bool) -> list[int]:
    """Return the lines in which an agent stops workers after it had told of one that ended: they are those of its next attempt.

    It says so once in each attempt, behind the workers that it stopped, and its lines bear the number of its own process.
    Where a cut between both is known already, there is no second one. What was said a moment after it had told of the end is
    of the next attempt already; what is printed late, and bears no time, is not.
    """
    cuts: list[int] = []
    told: dict[str, Event] = {}
    for line, what, _ in moments:
        agent = _AGENT.match(what.hit.text) if isinstance(what, Event) and what.id in _OF_AGENTS else None
        if agent is None or not isinstance(what, Event):
            continue
        end = told.get(agent[1])
        # In containers agents of several nodes may have the same number; those that are started anew do something in between.
        again = not several or any(_by_worker(one, end, line) for one in moments if end is not None)
        if end is not None and _later(what, end) and again:
            cuts += [] if any(end.hit.line < cut <= line for cut in known) else [_first_behind(moments, end, line)]
            told.clear()
        if what.id == "elastic.worker-exit":
            told[agent[1]] = what
    return cuts


def _first_behind(moments: list[tuple[int, Event | int, int | None]], end: Event, before: int) -> int:
    """Return the first line that was printed more than a moment after an end, and before a line; else that line."""
    later = (
        line
        for line, what, _ in moments
        if end.hit.line < line < before and isinstance(what, Event) and _later(what, end)
    )
    return next(later, before)


def _by_worker(moment: tuple[int, Event | int, int | None], end: Event, before: int) -> bool:
    """Return whether a moment between an end and a line is one of a worker: a step, or what it says."""
    line, what, _ = moment
    return end.hit.line < line < before and (isinstance(what, int) or not what.id.startswith(_OF_LAUNCHERS))


def _later(one: Event, other: Event) -> bool:
    """Return whether one event is more than a moment behind another one, by times that both of them bear."""
    return one.time is not None and other.time is not None and one.time > other.time + _MOMENT


def _held_back(moments: list[tuple[int, Event | int, int | None]]) -> dict[int, int]:
    """Return the lines that hold several steps of nobody known, each with the last of them: bars, drawn again in one line.

    Of several ranks each draws its own, and what one of them held back comes out behind what the others say at their end.
    """
    drawn: dict[int, list[int]] = {}
    for line, what, rank in moments:
        if isinstance(what, int) and rank is None:
            drawn.setdefault(line, []).append(what)
    return {line: max(steps) for line, steps in drawn.items() if len(steps) > 1}


def _of_file(moments: list[tuple[int, Event | int, int | None]], held_back: Mapping[int, int]) -> list[int]:
    """Return the cuts of one file.

    A further attempt begins where an agent says so, where a rank that was there before starts or loads again after
    something went wrong or after steps, and where steps fall back after something went wrong.
    """
    cuts: list[int] = []
    failed = False
    last: dict[int | None, int] = {}
    started: set[int | None] = set()
    wrong = -1
    told = max((line for line, what, _ in moments if isinstance(what, int) or what.role in _FAILING), default=-1)
    for line, what, rank in moments:
        mark = what.signature.marks if isinstance(what, Event) and what.signature is not None else None
        again = False
        if isinstance(what, Event) and what.role in _FAILING:
            wrong = line
        if isinstance(what, int):
            # The same step again is a bar that was drawn anew, and a rank that had told none yet may be one whose output was held back.
            before = last.get(rank, last.get(None) if rank is not None else max(last.values(), default=None))
            redrawn = moments[-1][0] - wrong <= REDRAWN
            again = failed and before is not None and what < before and not redrawn and held_back.get(line) != before
        elif mark == "restart":
            again = (failed or bool(last)) and (what.id not in _ASKED_FOR or line < told)
        elif mark == "start":
            again = rank in started and (failed or bool(last))
        elif mark == "resume":
            again = failed and bool(last)
        elif what.role in _FAILING:
            # A number that is none ends no process: what counts less behind it is a bar, or goes back to what was saved.
            failed = failed or what.category != "numerical" or what.raised is not None
        if again:
            cuts.append(line)
            failed, last, started = False, {}, set()
        if isinstance(what, int):
            last[rank] = max(what, last.get(rank, what))
        if mark is not None:
            started.add(rank)
    return cuts


def attempts_of(whole: Case) -> list[Case]:
    """Return a case for each attempt, in order; the whole where there is one."""
    cuts = Cuts(whole)
    if cuts.count == 1:
        return [whole]
    events: list[list[Event]] = [[] for _ in range(cuts.count)]
    for event in whole.events:
        number = cuts.of(event.place if event.hit.file >= 0 else None, event.time, event.hit.who)
        events[number].append(msgspec.structs.replace(event, attempt=number))
    found = []
    for number in range(cuts.count):
        if not events[number] and number < cuts.count - 1 and not _steps_in(whole, cuts, number):
            continue
        found.append(_case(whole, cuts, number, tuple(events[number])))
    return found


def _steps_in(whole: Case, cuts: Cuts, number: int) -> bool:
    return any(cuts.of((step.file, step.line), step.time, step.who) == number for step in whole.steps)


def _case(whole: Case, cuts: Cuts, number: int, events: tuple[Event, ...]) -> Case:
    """Return the part of a case that belongs to one attempt."""
    reading, last = whole.reading, number == cuts.count - 1
    endings = tuple(
        one
        for one in reading.endings
        if cuts.of((one.file, one.line) if one.file is not None and one.line is not None else None, one.time, one.about)
        == number
    )
    part = msgspec.structs.replace(
        reading,
        files=tuple(file for file in reading.files if cuts.given.get(file.index) in (None, number + cuts.first)),
        hits=tuple(hit for hit in reading.hits if cuts.of((hit.file, hit.line), hit.time, hit.who) == number),
        raised=(),
        unknown=tuple(cuts.within(one) for one in reading.unknown if cuts.of(one.last, None, one.first.who) == number),
        steps=tuple(step for step in reading.steps if cuts.of((step.file, step.line), step.time, step.who) == number),
        endings=endings,
        flights=reading.flights if last else (),
        stacks=reading.stacks if last else (),
        spoke=tuple(one for one in reading.spoke if cuts.given.get(one.file) in (None, number + cuts.first)),
    )
    case = Case(part, whole.signatures, whole.people)
    case.files, case.clocks, case.events, case.number = whole.files, whole.clocks, events, number
    case.raised = whole.raised
    return case


def attempt_of(number: int, scene: Scene, culprit: Culprit, decided: Decided) -> Attempt:
    """Return what is told of an attempt."""
    case = scene.case
    times = [event.time for event in case.events if event.time is not None]
    times += [
        time
        for step in case.steps
        if (time := case.corrected(step.time, case.people.node_of_who(step.who, step.file))) is not None
    ]
    return Attempt(
        number=number,
        began=min(times, default=None),
        ended=max(times, default=None),
        state=state_of(scene),
        first_step=scene.progress.first_step,
        last_step=scene.progress.last_step,
        category=decided.category if scene.failing else "none",
        culprit=culprit.ranks,
        text=decided.leading.title if decided.leading is not None else "",
    )
