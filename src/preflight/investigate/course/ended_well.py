"""The code of nought that who waited for a program tells last: what the program said before it ended nothing."""

from __future__ import annotations

from collections.abc import Sequence

from preflight.investigate.case.case import Case, Event
from preflight.investigate.cause.exceptions import REPEATED
from preflight.investigate.course.buffered import at_top
from preflight.investigate.course.outlived import gives_up
from preflight.source.logs.wrappers import WRAPPER
from preflight.vocabulary.log import Ending, Who

_WAITED_FOR = (WRAPPER, "shell", "compose")
"""Who waits for a whole program, and tells how it ended; a launcher tells that of one of many."""
_OF_PROGRAMS = ("checkpoint", "compile", "data", "environment", "network", "usercode")
"""What a program can catch and do without; numbers that are none, a card that breaks and a word from outside stay what they are.

Nor memory that ran out: a kernel or a shell tells of it as well, and scripts that catch it often end there, and with 0.
"""
_SHOWN_ELSEWHERE = ("series.", "flight.", "stacks.", "node.", "exit.")


def without_what_ended_well(case: Case, failing: Sequence[Event], recovered: list[Event]) -> list[Event]:
    """Return what failed without what a program said before it was seen to end with 0.

    What nobody caught is a failure all the same: Python ends with 1 of it, so that the 0 is of a script that went on. Where
    several ranks speak, or any process ended with an error, a 0 tells nothing of the others. A script that caught what ended it
    ends with 0, too: the program must have trained before, have said more behind it, and not have said that it gives up.
    """
    if len(case.people.seen) > 1 or any(one.code != 0 for one in case.endings):
        return list(failing)
    if any(REPEATED.search(one.first.text) for one in case.reading.unknown):
        return list(failing)
    ended = {one.file: one.line for one in case.endings if _of_a_program(one)}
    uncaught = {one.hit.place for one in case.raised if at_top(one) and not one.ignored}
    last = {file: line for file, line in ended.items() if _is_last(case, failing, file, line)}
    outlived = [
        event
        for event in failing
        if event.hit.line < (last.get(event.hit.file) or 0)
        and event.category in _OF_PROGRAMS
        and event.place not in uncaught
        and not gives_up(event.hit.text)
        and _goes_on_between(case, event, last[event.hit.file] or 0)
        and not event.id.startswith(_SHOWN_ELSEWHERE)
    ]
    recovered += outlived
    out = {id(event) for event in outlived}
    return [event for event in failing if id(event) not in out]


def _goes_on_between(case: Case, event: Event, end: int) -> bool:
    """Return whether a program trained before it said something, and said more between it, its traceback included, and its end."""
    file = event.hit.file
    steps = case.steps_in.get(file)
    told = max([event.hit.line, *(one.hit.line for one in case.raised if one.hit.file == file and one.hit.line < end)])
    return bool(steps and steps[0].line < event.hit.line) and end - told > 1


def _of_a_program(ending: Ending) -> bool:
    """Return whether somebody tells the end of a program, and not that of one process of several."""
    who = ending.about
    alone = who == Who(node=who.node)
    return ending.teller in _WAITED_FOR and alone and ending.file is not None and ending.line is not None


def _is_last(case: Case, failing: Sequence[Event], file: int | None, line: int | None) -> bool:
    """Return whether nothing failed behind a line, and no step is told there: it is of the last program of its file."""
    if file is None or line is None:
        return False
    steps = case.steps_in.get(file)
    worked = bool(steps and steps[-1].line > line)
    return not worked and not any(event.hit.file == file and event.hit.line > line for event in failing)
