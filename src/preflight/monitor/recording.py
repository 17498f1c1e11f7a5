"""The recording of one program: its trace folder before, ``run.json`` around it, and why nothing came when nothing did."""

from __future__ import annotations

import os
import re
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from preflight.errors import TraceError, UsageError
from preflight.monitor.collect.arrivals import NAME as ARRIVALS
from preflight.monitor.collect.settings import Settings
from preflight.monitor.trace.folder import RECORDINGS
from preflight.monitor.trace.process import NAME as SEGMENT
from preflight.monitor.trace.process import Process
from preflight.monitor.trace.run_file import NAME as RUN_FILE
from preflight.monitor.trace.run_file import write_run
from preflight.vocabulary.invariant import Invariant, encoded
from preflight.vocabulary.trace import ProcessEnd, RecordedRun, ThinnedPart
from preflight.vocabulary.version import VERSION

HOME = RECORDINGS
KEPT = "invariants.jsonl"
"""What a run that was given files of invariants is held against."""
_OURS = re.compile(
    r"run\.json|sealed\.json|invariants\.jsonl|arrivals\.jsonl|alerts\.jsonl|control|.*\.parquet|\..*\.part|"
    + SEGMENT.pattern
)
_BLIND = {"-S": "site is not imported", "-I": "the environment is ignored", "-E": "the environment is ignored"}


def keep(folder: Path, invariants: Sequence[Invariant]) -> None:
    """Leave in a trace folder what its run is held against, for whoever looks at it while it goes on.

    Raises:
        TraceError: It cannot be written.
    """
    try:
        (folder / KEPT).write_bytes(encoded(invariants))
    except OSError as error:
        raise TraceError(f"{folder / KEPT} cannot be written: {error.strerror or error}") from error


def free_folder(command: Sequence[str], home: Path = HOME) -> Path:
    """Return a folder for a program that has none yet: its name with the next number."""
    name = re.sub(r"[^\w.-]+", "-", Path(program_of(command).split()[-1]).stem) or "run"
    number = 1
    while (home / f"{name}-{number}").exists():
        number += 1
    return home / f"{name}-{number}"


def program_of(command: Sequence[str]) -> str:
    """Return what a command runs: the script, ``-m module``, or the program itself."""
    for at, word in enumerate(command):
        if at and word == "-m" and at + 1 < len(command):
            return f"-m {command[at + 1]}"
        if word.endswith((".py", ".ipynb")):
            return word
    return command[0] if command else ""


def prepare(folder: Path, force: bool) -> None:
    """Make a trace folder, empty of traces.

    Raises:
        UsageError: It holds a trace already, or something else, and ``force`` is not given.
        TraceError: It cannot be made.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file", "a trace is a folder; name another one")
    try:
        there = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
        ours = [name for name in there if _OURS.fullmatch(name)]
        if ours and not force:
            raise UsageError(
                f"{folder} holds a trace already",
                "name another folder, or let it be written over: --force, in Python force=True",
            )
        for name in ours:
            (folder / name).unlink()
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TraceError(f"{folder} cannot be written: {error.strerror or error}") from error


class Recording:
    """What ``run.json`` says while a program runs and when it has ended."""

    def __init__(self, folder: Path, command: Sequence[str], settings: Settings) -> None:
        """Take the folder, which is there, the command, and what is recorded."""
        self.folder = folder
        recorded: dict[str, Any] = {
            "detail_first": settings.detail_first,
            "detail_every": settings.detail_every,
            "norms_every": settings.norms_every,
            "api": settings.api,
        }
        if settings.needs:
            recorded["needs"] = sorted(settings.needs)
        self.run = RecordedRun(
            program=program_of(command),
            arguments=tuple(command),
            directory=os.getcwd(),
            versions={"preflight": VERSION, "python": None, "torch": None},
            budget=settings.budget or None,
            recorded=recorded,
            launcher=os.getpid(),
            host=socket.gethostname(),
            started=time.time(),
        )

    def begin(self) -> None:
        """Say that the program runs."""
        write_run(self.folder, self.run)

    def end(self, pid: int | None, code: int | None, processes: Sequence[Process]) -> None:
        """Say how the program ended and what its processes told."""
        trainers = [process for process in processes if process.role == "trainer" and process.facts]
        versions = dict(self.run.versions)
        for process in trainers[:1]:
            versions |= {"python": process.facts.get("python"), "torch": process.facts.get("torch")}
        thinned = tuple(
            ThinnedPart(
                what=str(row["what"]), every=int(row["every"]), rank=process.rank, since=row["i"], share=row["share"],
                reason=row["reason"],
            )
            for process in trainers
            for row in process.thinned
        )  # fmt: skip
        signal = code - 128 if code is not None and code > 128 else None
        self.run = msgspec.structs.replace(
            self.run,
            versions=versions,
            world_size=max((process.world or 1 for process in trainers), default=None),
            thinned=thinned,
            exit_code=code,
            processes=(ProcessEnd(pid=pid, exit_code=code, signal=signal),) if pid is not None else (),
            ended=time.time(),
        )
        write_run(self.folder, self.run)


def why_nothing(folder: Path, command: Sequence[str]) -> str | None:
    """Say why no process of a program that has ended was recorded; None where one was."""
    if not folder.is_dir():
        return f"{folder} was removed or renamed while the program ran"
    if any(SEGMENT.fullmatch(path.name) for path in folder.iterdir()) or (folder / "sealed.json").exists():
        return None
    told = _arrivals(folder)
    refused = [row["reason"] for row in told if row["what"] == "refused"]
    if refused:
        return str(refused[0])
    failed = [row["reason"] for row in told if row["what"] == "failed"]
    if failed:
        return f"importing PyTorch failed: {failed[0]}"
    if any(row["what"] == "importing" and not _past(told, row["pid"]) for row in told):
        return "the program ended while PyTorch was being imported"
    if any(row["what"] == "torch" for row in told):
        return "PyTorch was imported, but no forward or backward pass, optimizer or loader was used"
    if told:
        return "the program did not import PyTorch"
    blind = next((word for word in command[1:] if word in _BLIND or re.fullmatch(r"-[a-zA-Z]*[SIE]\w*", word)), None)
    if blind is not None:
        letter = next((word for word in _BLIND if word[1] in blind), blind)
        return f"Python was started with {blind}, so that {_BLIND.get(letter, 'the hook is not imported')}"
    return "no Python process was reached: the program is none, or starts Python with another environment"


def _past(told: list[dict[str, Any]], process: int) -> bool:
    """Whether a process came past the import of PyTorch."""
    return any(row["what"] == "torch" and row["pid"] == process for row in told)


def _arrivals(folder: Path) -> list[dict[str, Any]]:
    try:
        lines = (folder / ARRIVALS).read_bytes().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            found.append(msgspec.json.decode(line, type=dict[str, Any]))
        except msgspec.DecodeError:
            continue
    return found


def launcher_lives(run: RecordedRun | None) -> bool | None:
    """Whether the program that records still runs; None where that cannot be known."""
    if run is None or run.launcher is None or run.host != socket.gethostname() or sys.platform == "win32":
        return None
    return run.ended is None and _lives(run.launcher)


def any_arrived_lives(folder: Path) -> bool:
    """Whether a process of this machine that the hook reached still runs, or one that has its number now."""
    return any(type(row.get("pid")) is int and _lives(row["pid"]) for row in _arrivals(folder))


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


__all__ = [
    "RUN_FILE",
    "Recording",
    "any_arrived_lives",
    "free_folder",
    "launcher_lives",
    "prepare",
    "program_of",
    "why_nothing",
]
