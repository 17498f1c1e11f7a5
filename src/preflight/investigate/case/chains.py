"""Exceptions that were raised while another was handled, or while something stopped because of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from preflight.investigate.cause.exceptions import class_of, meaning_of
from preflight.investigate.cause.frames import LIBRARY
from preflight.vocabulary.log import Place, Raised, Who

INTERRUPT = "KeyboardInterrupt"
"""What Python raises where a person presses Ctrl-C, or a notebook is stopped."""
# What is raised so few lines below an exception, in a function that stops something, follows from it.
_CLOSE = 40
_MEETS = re.compile(r"torch/distributed/(?:distributed_c10d|c10d_logger)\.py$|horovod/\w+/mpi_ops")
"""Where ranks meet in a collective."""
_ASKED = re.compile(r"\bkilled by signal: (?:Terminated|Hangup|Interrupt)\b")
"""What is raised, wherever a process is at that moment, as somebody asks the workers of its loader to end."""
_STOPS = re.compile(r"^_*(?:shut_?down|tear_?down|clean_?up|finali[sz]e|destroy|terminate|stop)(?:_\w+)?$")


def uncaught(raised: Sequence[Raised]) -> Iterator[Raised]:
    """Yield the last exception of each chain: what it was raised from is its cause, and stands before it.

    Where the last one is cut off before its name, the one before it is the last that says what happened; an interrupt says it
    whatever is raised while it is handled, and so does what a rank raised before it met the others to end (``finally``).
    """
    for number, one in enumerate(raised):
        after = _raised_after(raised, number)
        last = after is None or not after.exception or (_meets(after) and not _meets(one))
        if last or _of_memory(one) or class_of(one) == INTERRUPT:
            yield one


def after_memory(raised: Sequence[Raised]) -> set[Place]:
    """Return the places of exceptions that were raised while one was handled that says that memory ran out."""
    return _after(raised, _of_memory)


def after_interrupt(raised: Sequence[Raised]) -> set[Place]:
    """Return the places of exceptions that were raised while an interrupt was handled: what it broke off complains of that."""
    return _after(raised, lambda one: class_of(one) == INTERRUPT)


def _after(raised: Sequence[Raised], begins: Callable[[Raised], bool]) -> set[Place]:
    """Return the places of exceptions that were raised while one of a kind was handled, or while one of those was."""
    found: set[Place] = set()
    begun = False
    for number, one in enumerate(raised):
        if begun:
            found.add(one.hit.place)
        begun = (begun or begins(one)) and _raised_after(raised, number) is not None
    return found


def handled_by_a_library(raised: Sequence[Raised]) -> set[Place]:
    """Return the places of exceptions that a library caught by itself, and that are only seen as the process was asked to end meanwhile.

    A traceback begins where its exception was caught: of what a program catches, or nobody, it begins in the program.
    """
    found: set[Place] = set()
    for number, one in enumerate(raised):
        after = _raised_after(raised, number)
        if after is not None and _ASKED.search(after.message) and one.frames and LIBRARY.search(one.frames[0].path):
            found.add(one.hit.place)
    return found


def while_stopping(raised: Sequence[Raised]) -> set[Place]:
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
            found.add(one.hit.place)
        else:
            last[writer] = one.hit.line
    return found


def _meets(raised: Raised) -> bool:
    """Return whether an exception was raised in a collective."""
    return any(_MEETS.search(frame.path.replace("\\", "/")) for frame in raised.frames)


def _of_memory(raised: Raised) -> bool:
    """Return whether an exception says by its class that memory ran out."""
    return bool(raised.exception) and meaning_of(raised).category == "oom"


def _raised_after(raised: Sequence[Raised], number: int) -> Raised | None:
    """Return the exception of the same writer that was raised while one was handled, or from it."""
    one = raised[number]
    after = raised[number + 1] if one.chained and number + 1 < len(raised) else None
    return after if after is not None and after.hit.file == one.hit.file and after.hit.who == one.hit.who else None
