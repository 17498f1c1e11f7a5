"""The recordings below a folder: which there are, and how each of them stands, without reading their rows."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Literal

import msgspec

from preflight.errors import TraceError
from preflight.monitor.recording import HOME, launcher_lives
from preflight.monitor.trace.folder import is_locked
from preflight.monitor.trace.process import NAME as SEGMENT
from preflight.monitor.trace.run_file import NAME as RUN_FILE
from preflight.monitor.trace.run_file import read_run
from preflight.monitor.trace.sealed import INDEX
from preflight.vocabulary.trace import RecordedRun

MOST = 200
"""Recordings that are listed, the newest."""
_MOST_ENTRIES = 5000
"""Entries of a folder that are looked at."""
_FRESH = 30.0
"""Seconds after the last write in which a process of another machine is taken to run."""

State = Literal["running", "finished", "failed", "killed", "stopped", "ended"]


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A recording.

    Attributes:
        id: Its path below the folder that was looked at; ``.`` for that folder itself.
        name: What to call it.
        program: The program that was recorded, where that is known.
        started: Seconds since 1970; where nobody said so, when its folder was last written to.
        state: ``running``; ``finished`` by itself, ``failed`` with an exit code, ``killed`` by a signal; ``stopped``
            without a word; ``ended`` where no more is known.
    """

    id: str
    name: str
    program: str | None
    started: float
    state: State


def recordings(root: Path) -> list[Listed]:
    """Return the recordings of a folder, the newest first.

    Those are the folder itself where it is one, else the folders in it and in its ``.preflight/monitor``.
    """
    if is_trace(root):
        return [_listed(root, ".", root.resolve().name)]
    places = [root / HOME, root / HOME.name, root]
    found: dict[str, Path] = {}
    for place in places:
        for path in _folders(place):
            found.setdefault(path.relative_to(root).as_posix(), path)
    newest = sorted(found.items(), key=lambda one: _written(one[1]), reverse=True)[:MOST]
    listed = [_listed(path, name, path.name) for name, path in newest]
    return sorted(listed, key=lambda one: (-one.started, one.id))


def is_trace(path: Path) -> bool:
    """Whether a folder holds a trace, or will soon."""
    try:
        if (path / INDEX).is_file() or (path / RUN_FILE).is_file() and _run(path) is not None:
            return True
        with os.scandir(path) as entries:
            return any(SEGMENT.fullmatch(entry.name) for entry, _ in zip(entries, range(_MOST_ENTRIES), strict=False))
    except OSError:
        return False


def state_of(path: Path, run: RecordedRun | None) -> State:
    """Return how a recording stands, by ``run.json``, its launcher and the locks of its files."""
    if run is not None and run.ended is not None:
        code = run.exit_code
        return "ended" if code is None else "finished" if code == 0 else "killed" if code > 128 else "failed"
    lives = launcher_lives(run)
    if lives is not None:
        return "running" if lives else "stopped"
    if (path / INDEX).is_file():
        return "ended"
    files = [one for one in path.iterdir() if SEGMENT.fullmatch(one.name)]
    here = run is None or run.host in (None, socket.gethostname())
    if any(is_locked(one) for one in files) if here else _is_fresh(files):
        return "running"
    return "stopped"


def _is_fresh(files: list[Path]) -> bool:
    return time.time() - max(map(_written, files), default=0.0) < _FRESH


def _folders(place: Path) -> list[Path]:
    try:
        with os.scandir(place) as entries:
            inside = [entry for entry, _ in zip(entries, range(_MOST_ENTRIES), strict=False) if entry.is_dir()]
    except OSError:
        return []
    return [place / entry.name for entry in inside if is_trace(place / entry.name)]


def _listed(path: Path, ident: str, name: str) -> Listed:
    run = _run(path)
    started = run.started if run is not None and run.started is not None else _written(path)
    program = run.program if run is not None else None
    return Listed(id=ident, name=name, program=program, started=started, state=state_of(path, run))


def _run(path: Path) -> RecordedRun | None:
    try:
        return read_run(path)
    except TraceError:
        return None


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
