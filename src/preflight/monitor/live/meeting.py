"""Where the ranks of one training meet: which of them is the first, and the one trace folder of all.

The first rank chooses. Where the process group is there, it says so in the group's store, which takes no collective;
else the others look where all ranks of one launch would, or for a run of the same command and parent process, and go
without a recording when nothing comes.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from preflight.errors import UsageError
from preflight.monitor.live.remarks import say

PATIENCE = 30.0
"""Seconds that a rank waits for the first one's ``run.json``, and the first one at the end for the other ranks."""
UNSEEN = 5.0
"""Seconds at the end for a rank that has written nothing: its machine may not see the folder."""
FAILED = 2.0
"""Seconds at the end after an error: the other ranks may wait for this one to be gone."""
FRESH = 600.0
"""Seconds by which the first rank may have begun before another, or clocks of machines may differ."""
KEY = "preflight/trace"

_begun = itertools.count(1)  # recordings of this process; each rank counts for itself
_said = itertools.count(1)
_taken: bytes | None = None


def is_first() -> bool:
    """Whether this process is the first rank, or the only one."""
    dist = _dist()
    if dist is not None:
        return int(dist.get_rank()) == 0
    rank = _number("RANK")
    if rank is None and _in_step():
        rank = _number("SLURM_PROCID")
    if rank is None:
        # Lightning's launcher says no more than these two before the process group is there.
        return world() == 1 or not (_number("LOCAL_RANK") or _number("NODE_RANK"))
    return rank == 0


def world() -> int:
    """How many ranks there are."""
    dist = _dist()
    if dist is not None:
        return int(dist.get_world_size())
    return _number("WORLD_SIZE") or (_number("SLURM_NTASKS") if _in_step() else 1) or 1


def claim(command: Sequence[str], output: Path | None, *, force: bool, spare: bool) -> Path:
    """Return a trace folder that is ready, for the first rank.

    Args:
        command: The command, after which it is named.
        output: The folder that is asked for.
        force: Whether to write over a trace that is in it.
        spare: Whether to take the next free ``FOLDER-NUMBER`` where a trace is in it.

    Raises:
        UsageError: It holds a trace, and neither is allowed.
        TraceError: It cannot be made.
    """
    from preflight.monitor.recording import prepare

    number = next(_begun)
    asked = output or _of_launch(command, number) or _new(command)
    for folder in _siblings(asked):
        try:
            prepare(folder, force)
        except UsageError as error:
            if output is not None and not spare:
                raise
            say(f"{error}; the next free one is taken")
            continue
        return folder
    raise AssertionError("the numbers have no end")


def announce(folder: Path | None) -> None:
    """Tell the other ranks which folder it is; None says that nothing is recorded."""
    store = _store()
    if store is not None:
        with contextlib.suppress(Exception):
            store.set(KEY, f"{os.getpid()}-{next(_said)} {folder.resolve() if folder else ''}")


def join(command: Sequence[str], output: Path | None) -> Path | None:
    """Return the folder that the first rank has made ready; None where nothing came in time."""
    global _taken
    number, since, until = next(_begun), time.time() - FRESH, time.monotonic() + PATIENCE
    while time.monotonic() < until:
        store = _store()
        if store is not None:
            told = _told(store)
            if told is not None and told != _taken:
                folder = told.partition(b" ")[2].decode()
                if not folder or _goes_on(Path(folder)):
                    _taken = told
                    return Path(folder) if folder else None
        elif output is None and _launch(number) is None and (_number("NODE_RANK") or _number("GROUP_RANK")):
            return None  # on another machine, and nothing says which launch it belongs to
        else:
            place = next((place for place in _places(command, output, number) if _goes_on(place, since)), None)
            if place is not None:
                return place
        time.sleep(0.05)
    return None


def await_others(folder: Path, ranks: int, failed: bool) -> None:
    """Wait until the other ranks have closed their files."""
    from preflight.monitor.trace.folder import TraceFolder

    if ranks == 1:
        return
    began = time.monotonic()
    seen = TraceFolder(folder)
    while (waited := time.monotonic() - began) < (FAILED if failed else PATIENCE):
        for _ in seen.poll():
            pass
        trainers = [one for one in seen.processes if one.role == "trainer"]
        ended = {one.rank for one in trainers if one.end is not None}
        known = {one.rank for one in trainers} if waited > UNSEEN else range(ranks)
        if len(ended) >= len(known):
            return
        time.sleep(0.2)


def _dist() -> Any:
    """Return ``torch.distributed`` where the process group is there."""
    dist = getattr(sys.modules.get("torch"), "distributed", None)
    return dist if dist is not None and dist.is_available() and dist.is_initialized() else None


def _store() -> Any:
    """Return the store of the process group; None where there is none, or one rank alone."""
    try:
        dist = _dist()
        return None if dist is None or world() == 1 else dist.distributed_c10d._get_default_store()
    except Exception:  # a backend without one, or a PyTorch that has it elsewhere
        return None


def _told(store: Any) -> bytes | None:
    """What the first rank has said, without waiting for it."""
    try:
        return bytes(store.get(KEY)) if store.check([KEY]) else None
    except Exception:
        return None


def _in_step() -> bool:
    """Whether ``srun`` has started this; a batch script has the number of tasks too, and runs once."""
    return "SLURM_STEP_ID" in os.environ


def _launch(number: int) -> str | None:
    """Return what all ranks of this launch, and only they, know; None where there is nothing."""
    known = os.environ
    if world() == 1:
        return None
    here = known.get("LOCAL_WORLD_SIZE") or known.get("LOCAL_SIZE")
    if here is not None and here == known.get("WORLD_SIZE"):
        words = [str(os.getppid())]  # all ranks are children of one launcher
    elif _in_step():
        words = [known.get(f"SLURM_{name}") or "0" for name in ("JOB_ID", "STEP_ID", "RESTART_COUNT")]
    elif known.get("TORCHELASTIC_RUN_ID", "none") != "none":
        words = [known["TORCHELASTIC_RUN_ID"]]
    else:
        return None
    return re.sub(r"[^\w.-]+", "-", "-".join([*words, known.get("TORCHELASTIC_RESTART_COUNT", "0"), str(number)]))


def _of_launch(command: Sequence[str], number: int) -> Path | None:
    """Return the folder that all ranks of this launch would name; None where the store tells it."""
    from preflight.monitor.recording import HOME, program_of

    launch = _launch(number) if _store() is None else None
    stem = re.sub(r"[^\w.-]+", "-", Path(program_of(command).split()[-1]).stem) or "run"
    return None if launch is None else HOME / f"{stem}-{launch}"


def _new(command: Sequence[str]) -> Path:
    """Return a folder that no other process has."""
    from preflight.monitor.recording import free_folder

    while True:
        folder = free_folder(command)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
            return folder


def _siblings(folder: Path) -> Iterator[Path]:
    """``FOLDER``, ``FOLDER-2``, ``FOLDER-3``, and so on."""
    yield folder
    for number in itertools.count(2):
        yield folder.with_name(f"{folder.name}-{number}")


def _places(command: Sequence[str], output: Path | None, number: int) -> list[Path]:
    """Return where the first rank may be, the newest first; nothing where that cannot be looked at."""
    from preflight.errors import TraceError
    from preflight.monitor.recording import HOME
    from preflight.monitor.trace.run_file import NAME, read_run

    asked = output or _of_launch(command, number)
    found: list[Path] = []
    with contextlib.suppress(OSError, TraceError):
        if asked is not None:
            return list(itertools.takewhile(Path.exists, _siblings(asked)))[::-1]
        for file in sorted(HOME.glob(f"*/{NAME}"), key=lambda file: file.stat().st_mtime)[-8:]:
            run = read_run(file.parent)
            if run is not None and run.launcher and run.arguments == tuple(command) and _is_kin(run.launcher):
                found.append(file.parent)
    return found[::-1]


def _is_kin(process: int) -> bool:
    """Whether a process has started this one, as Lightning's first rank has, or was started by the same one."""
    if process == os.getppid():
        return True
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return int(stat.rpartition(")")[2].split()[1]) == os.getppid()  # its name, in parentheses, may hold anything


def _goes_on(folder: Path, since: float = 0.0) -> bool:
    """Whether a run that has not ended is recorded there."""
    from preflight.monitor.recording import launcher_lives
    from preflight.monitor.trace.run_file import read_run

    try:
        run = read_run(folder)
    except Exception:
        return False
    if run is None or run.ended is not None or launcher_lives(run) is False:
        return False
    return (run.started or 0.0) >= since


def _number(variable: str) -> int | None:
    try:
        return int(os.environ[variable])
    except (KeyError, ValueError):
        return None
