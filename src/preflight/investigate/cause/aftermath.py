"""Which of several roots only tell what came of another one: a job that was ended, a command behind a program that failed."""

from __future__ import annotations

import re

from preflight.investigate.case.case import Event
from preflight.vocabulary.log import Hit

DIED = ("end.segfault", "end.bus-error", "end.abort", "end.illegal-instruction", "end.float-exception")
_COMMAND = "environment.command-missing"
_OF_A_SCRIPT = re.compile(r"(?:^|[\s/])(?!(?:ba|da|k|z)?sh: )[^\s/:]+: line \d+: ")
"""A line of a file; what a shell is handed by a program it tells under its own name."""


def without_aftermath(roots: list[Event]) -> list[Event]:
    """Return the roots without a job's end that no reason is given for, where one of its own processes had died before."""
    died = [event.hit.line for event in roots if event.id in DIED]
    return [
        event
        for event in roots
        if event.id != "preemption.slurm-cancelled"
        or event.hit.fields.get("why")
        or not any(line < event.hit.line for line in died)
    ]


def without_shell_words(roots: list[Event]) -> list[Event]:
    """Return the roots without commands that a shell did not find in a script, where a program raised something of its own.

    The shell goes on with the next line of its script. What a program itself hands to a shell is no line of one.
    """
    raised = [event for event in roots if event.raised is not None and event.raised.frames]
    return [
        event
        for event in roots
        if event.id != _COMMAND
        or _OF_A_SCRIPT.search(event.hit.text) is None
        or not any(one.hit.file == event.hit.file and not _names(one, event.hit) for one in raised)
    ]


def _names(event: Event, told: Hit) -> bool:
    """Return whether an exception names the command that a shell did not find."""
    wanted = next((str(value) for value in told.fields.values() if value), "").rpartition("/")[2]
    said = event.raised.message if event.raised is not None else ""
    return not wanted or wanted in event.hit.text or wanted in said
