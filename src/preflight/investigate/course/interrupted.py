"""What fails because a run is being interrupted: processes that are asked to end break off whatever they were at.

Where several processes are asked at once, their last words are printed through each other: pipes that end, files that were
half written, ranks that wait for those which are gone. The word of the interrupt decides, wherever among them it stands.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from preflight.investigate.case.case import Case, Event

_INTERRUPTS = ("exception.KeyboardInterrupt", "exception.SignalException", "preemption.worker-asked")
_BROKEN_OFF = re.compile(
    r"^exception\.(?:EOFError|UnpicklingError|ConnectionResetError|ConnectionRefusedError|ConnectionAbortedError|BrokenPipeError"
    r"|Terminated|ProcessLookupError|)$"
)
"""Exceptions of a process whose partner has gone; the last one has no name, as its traceback is cut off."""
_FOLLOW = ("network.remote-disconnect", "data.worker-exited")
_LOCKED = re.compile(
    r"release unlocked lock|pickle data was truncated|can only (?:test|join) a child process|handle is closed"
)

_WARNED = re.compile(r"(?:^|[\s:])\w*Warning: ")
"""How Python prints what it warns of: the program goes on behind it."""


def interrupts_in(events: Sequence[Event]) -> tuple[Event, ...]:
    """Return the events that tell that somebody interrupted the run, in the order of their lines."""
    found = [event for event in events if event.id in _INTERRUPTS]
    return tuple(sorted(found, key=lambda event: event.place))


def without_broken_off(events: Sequence[Event], interrupts: Sequence[Event]) -> list[Event]:
    """Return the events without those that an interrupt at the same step of the same file broke off."""
    return [event for event in events if not any(_broken_off(event, one) for one in interrupts)]


def without_warned(events: Sequence[Event], interrupts: Sequence[Event]) -> list[Event]:
    """Return the events without those of which a process was only warned that went on until an interrupt ended it."""
    return [event for event in events if not any(_warned(event, one) for one in interrupts)]


def _warned(event: Event, interrupt: Event) -> bool:
    before = event.hit.file == interrupt.hit.file and event.hit.line < interrupt.hit.line
    return before and event.attempt == interrupt.attempt and _WARNED.search(event.hit.text) is not None


def _broken_off(event: Event, interrupt: Event) -> bool:
    if event.hit.file != interrupt.hit.file or event.step != interrupt.step or event.attempt != interrupt.attempt:
        return False
    if _BROKEN_OFF.search(event.id) or event.id in _FOLLOW or _LOCKED.search(event.hit.text):
        return True
    # What closes a connection is gone at that moment; what waits for it complains later, and takes its process down.
    waits = event.category == "network" and event.role == "cascade"
    return (waits or event.id == "end.abort") and event.hit.line > interrupt.hit.line


def without_cancelled_steps(case: Case, failing: list[Event]) -> list[Event]:
    """Return what failed without a step's end for which no reason is given, behind the line in which a task of it had ended by itself.

    A scheduler that is asked to (``srun --kill-on-bad-exit``) cancels the step of a task that fails, in the words in which it
    obeys a person; the tasks that it stops end after that, and by its signal.
    """
    ended: dict[int, int] = {}
    for ending in case.endings:
        if ending.teller == "slurm" and ending.code not in (None, 0, -15) and ending.file is not None:
            ended[ending.file] = min(ending.line or 0, ended.get(ending.file, ending.line or 0))
    # Of two files nothing tells the order; whoever does not end when it is asked to is killed.
    by_itself = any(one.teller == "slurm" and one.code not in (None, 0, -9, -15) for one in case.endings)
    return [
        event
        for event in failing
        if event.id != "preemption.slurm-cancelled"
        or event.hit.fields.get("why")
        or (event.hit.line <= ended[event.hit.file] if event.hit.file in ended else not by_itself)
    ]
