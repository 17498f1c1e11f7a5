"""Ends that no line explains: what an exit code alone says."""

from __future__ import annotations

import msgspec

from preflight.investigate.case.case import Case, Event
from preflight.vocabulary.log import Ending, Hit
from preflight.vocabulary.signature import Category, Cause, Role, Signature

_MADE = "exit code"


_ALIKE = {
    "exit.segmentation-fault": "end.segfault",
    "exit.bus-error": "end.bus-error",
    "exit.illegal-instruction": "end.illegal-instruction",
    "exit.arithmetic-fault": "end.float-exception",
    "exit.aborted": "end.abort",
    "exit.killed": "end.killed",
    "exit.terminated": "end.sigterm",
    "exit.interrupted": "end.keyboard",
}
"""The signatures of lines that tell the same in words: what they advise holds where a code alone tells it."""


def _made(
    name: str, title: str, category: Category, role: Role, causes: tuple[Cause, ...] = (), advice: tuple[str, ...] = ()
) -> Signature:
    return Signature(id=f"exit.{name}", title=title, category=category, role=role, literals=(_MADE,), causes=causes,
                     next=advice, match=(_MADE,), no_match=("",))  # fmt: skip


# Nothing but the signal is known: memory is the commonest sender of it, and every other one is possible.
_KILLED = _made("killed", "the process was killed by signal 9, and it could not say why", "oom", "root", (
    Cause("host-out-of-memory", "the host's memory is full, and the kernel killed it", 0.45, "oom", ("kernel-log", "resident-memory")),
    Cause("cgroup-limit", "the memory limit of the container or the job was reached", 0.2, "oom", ("cgroup-events",)),
    Cause("preempted", "the scheduler took the machine for another job", 0.1, "preemption", ("scheduler-events",)),
    Cause("time-limit", "the time of the job was up, and it did not end when asked", 0.05, "preemption", ("scheduler-events",)),
    Cause("signal-from-outside", "a person or a script killed it", 0.1, "preemption", ("scheduler-events", "shell-history")),
))  # fmt: skip
_OF_SIGNAL: dict[int, Signature] = {
    9: _KILLED,
    11: _made("segmentation-fault", "the process ended with a segmentation fault", "other", "root"),
    7: _made("bus-error", "the process ended with a bus error", "environment", "root", (
        Cause("shm-too-small", "shared memory (/dev/shm) is full", 0.6, "environment", ("shm-size",)),
        Cause("mapped-file-shortened", "a file that is mapped into memory was shortened", 0.2, "data"),
    )),
    4: _made("illegal-instruction", "the process met an instruction that this processor lacks", "environment", "root"),
    8: _made("arithmetic-fault", "the process ended with an arithmetic fault", "other", "root"),
    6: _made("aborted", "the process aborted itself", "other", "cascade", (
        Cause("native-abort", "a check in native code failed: an assertion, a double free, an exception that nobody caught", 0.5, "other",
              ("native-stack",)),
        Cause("watchdog-gave-up", "the watchdog of a collective gave up and ended the process", 0.4, "network",
              ("flight-recorder", "exit-codes")),
    )),
    14: _made("alarm-clock", "the process was ended by a clock that it had set itself (SIGALRM)", "other", "root"),
    13: _made("broken-pipe", "the process wrote to somebody who was gone (SIGPIPE)", "other", "cascade"),
    15: _made("terminated", "the process was asked to stop", "preemption", "teardown"),
    2: _made("interrupted", "the process was interrupted", "preemption", "teardown"),
}  # fmt: skip
_DIED = _made("died", "the process died, and who looks after it does not tell how", "other", "root", (
    Cause("host-out-of-memory", "the host's memory is full, and the kernel killed it", 0.4, "oom", ("kernel-log", "resident-memory")),
    Cause("native-crash", "it crashed in native code", 0.4, "other", ("native-stack",)),
))  # fmt: skip
LOOK_AFTER = ("engine", "ray", "paddle")
"""Who starts workers, tells of the first one that dies, and often not how."""
_ERROR = _made("error", "the process ended with an error", "other", "teardown", advice=(
    "Look for what ends the program with that code: sys.exit, os._exit, a script around it, a library.",
    "Start it with PYTHONFAULTHANDLER=1 and the output of every rank kept (torchrun --log-dir --redirects 3).",
))  # fmt: skip


def signal_of(code: int) -> int | None:
    """Return the signal that an exit code stands for: -9, 137 and 247 are 9; 255 is what a program says with ``exit(-1)``."""
    if code < 0:
        return -code
    return code - 128 if 128 < code < 128 + 32 else 256 - code if 256 - 32 < code < 255 else None


def died(ending: Ending) -> bool:
    """Return whether a process died without anybody saying how."""
    return ending.code is None and ending.teller in LOOK_AFTER


def ending_events(case: Case) -> list[Event]:
    """Return an event for each process whose end is told, once for each rank and process; of 0 none."""
    found: dict[object, Event] = {}
    for ending in case.endings:
        if not ending.code and not died(ending):
            continue
        rank = case.people.rank_of(ending.about, ending.file)
        key: object = (rank if rank is not None else ending.about, ending.code, ending.about.pid)
        if key not in found:
            found[key] = _event(case, ending, rank)
    return list(found.values())


def _event(case: Case, ending: Ending, rank: int | None) -> Event:
    code = ending.code or 0
    signature = _advised(case, _OF_SIGNAL.get(signal_of(code) or 0, _ERROR) if code else _DIED)
    node = case.people.node_of.get(rank) if rank is not None else case.people.node_of_who(ending.about, ending.file)
    # Who tells it reads his own clock, which is that of his node.
    hit = Hit(signature=signature.id, file=ending.file if ending.file is not None else -1, line=ending.line or 0,
              offset=0, text=ending.message or (f"exit code {code} ({ending.teller})" if code else f"died ({ending.teller})"), about=ending.about,
              time=ending.time, time_error=ending.time_error)  # fmt: skip
    title = f"the process ended with exit code {code}" if signature.id == _ERROR.id and code != 1 else signature.title
    return Event(id=signature.id, title=title, category=signature.category, role=signature.role, hit=hit,
                 signature=signature, rank=rank, node=node, time=case.corrected(ending.time, node),
                 error=ending.time_error + case.clock_error(node), specific=False)  # fmt: skip


def _advised(case: Case, signature: Signature) -> Signature:
    """Return what a code tells with the causes and the advice of what tells the same in words."""
    alike = case.signatures.get(_ALIKE.get(signature.id, ""))
    if alike is None:
        return signature
    return msgspec.structs.replace(
        signature, causes=signature.causes or alike.causes, next=signature.next or alike.next
    )
