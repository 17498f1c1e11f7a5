"""Failures of a program that counts no steps, long before the end of its log: a script ran on, or the program was started again."""

from __future__ import annotations

from preflight.investigate.case.case import Case, Event
from preflight.investigate.case.unexplained import any_trouble
from preflight.source.logs.wrappers import WRAPPER
from preflight.vocabulary.log import Ending

_LINES = 200
_BYTES = 16_384
"""Twice what waits in a buffer of Python's, and comes out as a program that failed ends."""
_SECONDS = 60.0
"""Nobody prints a message, a stack or what waited in a buffer for so long."""
_OF_MANY = ("series.", "flight.", "stacks.", "node.", "elastic.", "network.", "preemption.")
_RUNS_ON = (WRAPPER, "shell")
"""Who tells how a program ended, and may start the next one."""


def without_went_by(case: Case, failing: list[Event]) -> list[Event]:
    """Return nothing where much was said long after the last of what failed, by the clock of the log; else what failed.

    Where several ranks write, or steps are counted, the steps tell whether a run went on.
    """
    several = len(case.people.seen) > 1 or (case.people.world or 1) > 1 or len(case.people.nodes) > 1
    counted = any(one.step is not None for one in case.steps)
    if not failing or several or counted or case.reading.flights or case.reading.stacks:
        return failing
    if any_trouble(case.reading.unknown) or not all(_ran_on(case, one) for one in case.endings if one.code):
        return failing
    return [] if all(_went_by(case, event) for event in failing) else failing


def _ran_on(case: Case, ending: Ending) -> bool:
    """Return whether somebody who may have started another program told of an end long before the end of a file."""
    file = case.files.get(ending.file) if ending.file is not None else None
    return ending.teller in _RUNS_ON and file is not None and file.lines - (ending.line or 0) >= _LINES


def _went_by(case: Case, event: Event) -> bool:
    file = case.files.get(event.hit.file)
    if file is None or event.id.startswith(_OF_MANY) or event.time is None or file.last_time is None:
        return False
    behind = case.lines_behind(event.hit)
    much = behind >= _LINES and file.size * behind >= _BYTES * file.lines
    return much and file.last_time - event.time - event.error >= _SECONDS
