"""Where each kind of event stands last in its file, so that whether one stands behind a line needs no search."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator

from preflight.investigate.case.case import Case, Event
from preflight.investigate.course.buffered import at_top
from preflight.vocabulary.log import Raised

_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\]")
_OF_PYTHON = re.compile(
    r"[/\\]lib(?:64)?[/\\]python\d[\d.]*[/\\]|^<frozen |\\[Ll]ib\\(?:multiprocessing|concurrent|asyncio|threading|runpy)\b"
)
"""On Windows its modules lie in `Lib` itself, in a folder of any name."""
_WHATEVER_FAILED = ("progress.pipeline-complete",)
"""What runs one step after the other says so at their end, whether each of them did what it should or not."""
_BY_CODE = ("progress.tracker-saw-success",)
"""What saw a program end with 0, also where its own hook for what nobody caught was replaced by another one."""
_WAITED = ("progress.ran-well",)
"""What waited for a whole script and saw it end with 0."""
_LAST_WORDS = 20
"""So many lines at most a script says behind what it swallowed and ended of."""
_FAILING = ("root", "cascade", "confirmation", "teardown")


class LastLines:
    """For each file the last line of each kind of event; there are few kinds, and may be thousands of events."""

    def __init__(self, case: Case) -> None:
        """Look through the events once."""
        self._told: dict[int, dict[tuple[str, str, str], int]] = {}
        self._ends: dict[tuple[int, int | None], int] = {}
        self._times: dict[int, dict[int, float]] = {}
        self._waited: dict[int, int] = {}
        ended = (one for one in case.reading.raised if not one.chained)
        self._raised = {one.hit.file for one in ended if not stays_in_a_library(one)}
        self._uncaught = {one.hit.file for one in case.reading.raised if not one.chained and at_top(one)}
        self._died = {one.file for one in case.endings if one.code}
        for event in case.events:
            file, line = event.hit.file, event.hit.line
            told = self._told.setdefault(file, {})
            kind = (event.id, event.role, event.category)
            told[kind] = max(line, told.get(kind, line))
            if event.id in _WAITED:
                self._waited[file] = max(line, self._waited.get(file, -1))
            elif is_done(event) and not (event.id in _BY_CODE and file in self._uncaught):
                self._end(event)

    def _end(self, event: Event) -> None:
        file, rank = event.hit.file, event.rank
        self._ends[file, rank] = max(event.hit.line, self._ends.get((file, rank), -1))
        if rank is not None and event.time is not None:
            times = self._times.setdefault(rank, {})
            times[file] = max(event.time - event.error, times.get(file, event.time - event.error))

    def _behind(self, event: Event) -> Iterator[tuple[str, str, str]]:
        """Yield the kinds of events that stand behind one in its file."""
        for kind, line in self._told.get(event.hit.file, {}).items():
            if line > event.hit.line:
                yield kind

    def ended(self, event: Event) -> bool:
        """Return whether a run says behind an event that it is done: in its file, or in another one of the same rank.

        Who waited for a script and saw it end with 0 says so for it where it had said much more; of less ``ended_well`` decides.
        """
        file, rank = event.hit.file, event.rank
        if self._waited.get(file, -1) - event.hit.line > _LAST_WORDS:
            return True
        if max(self._ends.get((file, one), -1) for one in (rank, None)) > event.hit.line:
            return True
        if rank is None or event.time is None:
            return False
        latest = event.time + event.error
        return any(time > latest for other, time in self._times.get(rank, {}).items() if other != file)

    def stopped(self, event: Event) -> bool:
        """Return whether the job of an event was ended from outside after it, and nothing else failed in its file."""
        if event.hit.file in self._raised:
            return False
        behind = list(self._behind(event))
        roots = {category for name, role, category in behind if role == "root" and name != event.id}
        return any(category == "preemption" for _, _, category in behind) and roots <= {"preemption"}

    def failed(self, event: Event) -> bool:
        """Return whether anything failed behind an event in its file, or a process of it ended with an error."""
        return event.hit.file in self._died or any(role in _FAILING for _, role, _ in self._behind(event))

    def failed_otherwise(self, event: Event) -> bool:
        """Return whether a file tells of a failure of another kind than an event."""
        told = self._told.get(event.hit.file, {})
        return any(name != event.id and role in _FAILING and role != "teardown" for name, role, _ in told)

    def done(self, file: int, line: int, what: Container[str]) -> bool:
        """Return whether a file tells of one of some events at a line or behind it."""
        return any(name in what and last >= line for (name, _, _), last in self._told.get(file, {}).items())


def is_end(event: Event) -> bool:
    """Return whether an event is a word of a run that is done."""
    return event.signature is not None and event.signature.marks == "end"


def is_done(event: Event) -> bool:
    """Return whether an event is a word of a run that is done, and did what it should."""
    return is_end(event) and event.id not in _WHATEVER_FAILED


def stays_in_a_library(raised: Raised) -> bool:
    """Return whether a traceback begins in a library and no frame of it is the program's: a library caught what it called itself.

    One that runs a function of the program in a process or a task of its own begins in a library as well.
    """
    first = raised.frames[0] if raised.frames else None
    if first is None or raised.begins is None or first.function == "<module>" or not _INSTALLED.search(first.path):
        return False
    return all(_INSTALLED.search(frame.path) or _OF_PYTHON.search(frame.path) for frame in raised.frames)


def caught_by_the_program(raised: Raised) -> bool:
    """Return whether a traceback begins in a function of the program: what nobody catches begins at the top of a script or a thread."""
    first = raised.frames[0] if raised.frames else None
    if first is None or raised.begins is None or first.function == "<module>":
        return False
    return not (_INSTALLED.search(first.path) or _OF_PYTHON.search(first.path))
