"""What is told behind the word of a program that it is done: how it is put away, and what it can do without."""

from __future__ import annotations

from collections.abc import Mapping

from preflight.investigate.case.case import Case, Event
from preflight.investigate.cause.exceptions import REPEATED
from preflight.investigate.course.cells import OF_A_CARD
from preflight.investigate.course.last_lines import caught_by_the_program, is_done
from preflight.investigate.course.outlived import only_said
from preflight.source.logs.wrappers import WRAPPER
from preflight.vocabulary.log import Ending

_PUTS_AWAY = (
    "end.sigterm",
    "end.keyboard",
    "end.terminated-alone",
    "exception.KeyboardInterrupt",
    "exit.interrupted",
    "exit.terminated",
)
"""Words of a program that is asked to end; a scheduler's are not among them, as its word stands where the job hung as well."""
_STOPS_WORKERS = "elastic.closing"
"""What an agent of torchrun says that is told to end, or of whose workers one ended with an error: its code is told then."""
_TYPED = -2
"""The code of an end of which a terminal shows that Control-C was pressed."""
_ABORTED = -6
_PUT_AWAY = (_ABORTED, -15)
"""The codes by which a shell tells that a program aborted as it was unloaded, or that a script ended what it had started beside it."""
_OF_AN_ABORT = ("exit.aborted", "end.abort")
"""What tells that native code gave up, and that an exception of it reached nobody."""
_AT_ONCE = 6
"""So many lines behind the end at most a program aborts that is being unloaded; what it does for longer is more work."""
_SHELL = "shell"
_TOLD_NOBODY = ("network", "environment")
"""What goes wrong where a program tells others, or shows, what it did."""
_AS_WELL = (*_TOLD_NOBODY, "data", "checkpoint", "usercode", "other")
"""What else may be caught where it does more than that; what a card says of it is no small thing."""
_WORK = ("progress.evaluation", "progress.results-saved", "progress.checkpoint-saved")
_BEGINS = ("start", "resume", "restart")


def without_what_is_behind(case: Case, failing: list[Event]) -> list[Event]:
    """Return what failed without what stands behind the word that a run is done, and ended nothing any more.

    Behind it a program is asked to end, as a server or a window that it left open, or says that it could not tell anybody of what
    it did. What is raised there and not caught is a failure, and so is everything where a process ended with an error.
    """
    done = _done_at(case) if failing else {}
    if not done or any(ending.code and not _closed(ending, done) for ending in case.endings):
        return failing
    return [event for event in failing if not _put_away(case, event, done)]


def _done_at(case: Case) -> Mapping[int, int]:
    """Return for each file where a run says for the last time that it is done, if no step and no start stands behind it."""
    found: dict[int, int] = {}
    for event in case.events:
        if is_done(event):
            found[event.hit.file] = max(event.hit.line, found.get(event.hit.file, 0))
    for event in case.events:
        file, line = event.hit.file, event.hit.line
        if event.signature is not None and event.signature.marks in _BEGINS and line > found.get(file, line):
            del found[file]
    return {
        file: line for file, line in found.items() if not any(one.line > line for one in case.steps_in.get(file, ()))
    }


def _closed(ending: Ending, done: Mapping[int, int]) -> bool:
    """Return whether a program was put away behind its end: by who closed what it had left open, or by an abort.

    Native libraries abort as they are unloaded, and a shell tells of it; an agent that looks after workers counts it as their end.
    """
    typed = ending.teller == WRAPPER and ending.code == _TYPED
    aborted = ending.teller == _SHELL and ending.code in _PUT_AWAY
    if not (typed or aborted) or ending.file is None or ending.line is None:
        return False
    behind = ending.line - done.get(ending.file, ending.line)
    return behind > 0 and (ending.code != _ABORTED or behind <= _AT_ONCE)


def _put_away(case: Case, event: Event, done: Mapping[int, int]) -> bool:
    """Return whether an event stands behind the end of its run and ended nothing."""
    file, line = event.hit.place
    if line <= done.get(file, line):
        return False
    if event.id in (*_PUTS_AWAY, _STOPS_WORKERS):
        return True
    if event.id in _OF_AN_ABORT:
        at_once = line - done[file] <= _AT_ONCE
        return at_once and OF_A_CARD.search(event.hit.text) is None and not _several(case)
    if event.guessed:
        return only_said(event)
    return _caught(case, event)


def _several(case: Case) -> bool:
    """Return whether several ranks speak: what one of them did behind its end may have kept the others from theirs."""
    return len(case.people.seen) > 1


def _caught(case: Case, event: Event) -> bool:
    """Return whether the program caught an exception, printed it and said more; Hydra and Ray print theirs as if it had."""
    file, line = event.hit.place
    if event.category not in _AS_WELL or OF_A_CARD.search(event.hit.text):
        return False
    if _several(case) or not any(one.exception and one.hit.place == (file, line) for one in case.raised):
        return False
    if any(one.first.file == file and REPEATED.search(one.first.text) for one in case.reading.unknown):
        return False
    last = next((one for one in case.raised if one.hit.place >= (file, line) and not one.chained), None)
    if last is None or last.hit.file != file or last.exception.startswith(("ray.", "RayTaskError")):
        return False
    if case.lines_behind(last.hit) < 1 or not caught_by_the_program(last):
        return False
    # A test or an export that fails behind a training may end with it, unless something was done then.
    return event.category in _TOLD_NOBODY or any(
        one.id in _WORK and one.hit.file == file and one.hit.line > last.hit.line for one in case.events
    )
