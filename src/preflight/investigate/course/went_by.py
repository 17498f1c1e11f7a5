"""Failures that a log goes on behind without a step that is numbered: a script ran on, a program was started again or caught them."""

from __future__ import annotations

import re

from preflight.investigate.case.case import Case, Event
from preflight.investigate.case.unexplained import any_trouble
from preflight.source.logs.wrappers import WRAPPER
from preflight.vocabulary.log import Ending

_LINES = 200
_BYTES = 16_384
"""Twice what waits in a buffer of Python's, and comes out as a program that failed ends."""
_SECONDS = 60.0
"""Nobody prints a message, a stack or what waited in a buffer for so long."""
_MANY = 1000
_MUCH = 65_536
"""So much is no last word of a program, whatever time it bears: where no line bears one, that alone tells."""
_STEPS = 20
"""So many lines of steps without a number, as those of another program that counts none, show that work was done."""
_OF_MANY = ("series.", "flight.", "stacks.", "node.", "elastic.", "network.", "preemption.")
_CONTINUES = re.compile(
    r"\b[Cc]ontinuing (?:with|without|anyway)\b|\b[Ff]alling back to \w|\b[Ss]kipping (?:this |the |bad )?(?:batch|sample|step)\b"
)
"""How a program says of what it caught that it goes on: as the last word of a log nothing can follow that shows it."""
_NEAR = 3
_CATCHES = ("checkpoint", "data", "environment", "oom", "usercode")
_RUNS_ON = (WRAPPER, "shell")
"""Who tells how a program ended, and may start the next one."""


def without_went_by(case: Case, failing: list[Event]) -> list[Event]:
    """Return nothing where much was said long after the last of what failed, by the clock of the log; else what failed.

    Where no line bears a time, only very much is of what ran on. Where several ranks write, the steps tell whether a run went on;
    so they do where they are counted, unless those behind bear no number.
    """
    if not failing or _several(case) or case.reading.flights or case.reading.stacks:
        return failing
    if any(one.step is not None for one in case.steps) and not all(_worked_since(case, one) for one in failing):
        return failing
    if any_trouble(case.reading.unknown) or not all(_ran_on(case, one) for one in case.endings if one.code):
        return failing
    return [] if all(_went_by(case, event) for event in failing) else failing


def without_what_it_goes_on_behind(case: Case, failing: list[Event]) -> list[Event]:
    """Return nothing where the last line of the log says that the program goes on behind what failed right above; else what failed.

    What nobody caught is a failure: what was said before waits in a buffer, and comes out as a program ends.
    """
    if not failing or _several(case) or any(one.code for one in case.endings):
        return failing
    last = max(failing, key=lambda event: event.place)
    file = case.files.get(last.hit.file)
    if file is None or case.lines_behind(last.hit) > _NEAR or any(one.hit.file != last.hit.file for one in failing):
        return failing
    uncaught = {one.hit.place for one in case.raised if one.frames and one.frames[0].function == "<module>"}
    caught = all(
        event.category in _CATCHES and not event.id.startswith(_OF_MANY) and event.place not in uncaught
        for event in failing
    )
    return [] if caught and _CONTINUES.search(file.last_text) else failing


def _several(case: Case) -> bool:
    return len(case.people.seen) > 1 or (case.people.world or 1) > 1 or len(case.people.nodes) > 1


def _worked_since(case: Case, event: Event) -> bool:
    """Return whether many steps that bear no number are told behind an event in its file."""
    behind = [one for one in case.steps_in.get(event.hit.file, ()) if one.line > event.hit.line]
    return len(behind) >= _STEPS and all(one.step is None for one in behind)


def _ran_on(case: Case, ending: Ending) -> bool:
    """Return whether somebody who may have started another program told of an end long before the end of a file."""
    file = case.files.get(ending.file) if ending.file is not None else None
    return ending.teller in _RUNS_ON and file is not None and file.lines - (ending.line or 0) >= _LINES


def _went_by(case: Case, event: Event) -> bool:
    file = case.files.get(event.hit.file)
    if file is None or event.id.startswith(_OF_MANY):
        return False
    behind = case.lines_behind(event.hit)
    size = file.size * behind // max(file.lines, 1)
    if event.time is None or file.last_time is None:
        untimed = event.time is None and file.last_time is None
        return untimed and behind >= _MANY and size >= _MUCH
    return behind >= _LINES and size >= _BYTES and file.last_time - event.time - event.error >= _SECONDS
