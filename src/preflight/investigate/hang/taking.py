"""Takes the stacks of live processes, each with its own deadline: py-spy where it may look, else faulthandler on a signal.

py-spy reads without stopping the process (``--nonblocking``), so that a stopped one cannot hold it up, and nothing is changed by it.
A signal is sent only when the person names one, and only to a process that catches it: any other would be killed by it.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from preflight.investigate.hang.processes import RankProcess
from preflight.vocabulary.log import LogFile, Stack, Who

# What py-spy prints in one call may take this long on a busy node.
EACH = 15.0
_WAIT = 0.05


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """The stacks of one process, or why there are none; ``how``: ``py-spy``, ``faulthandler``."""

    process: RankProcess
    stacks: tuple[Stack, ...] = ()
    how: str = ""
    problem: str | None = None


def take(processes: Sequence[RankProcess], *, seconds: float, number: int | None = None) -> tuple[Taken, ...]:
    """Take the stacks of all processes at once, within so many seconds together.

    Args:
        processes: The ranks.
        seconds: Deadline for all of them.
        number: A signal on which the program prints its stacks (``faulthandler.register``), for where py-spy may not look.
    """
    end = time.monotonic() + seconds
    with ThreadPoolExecutor(max_workers=min(16, max(1, len(processes)))) as pool:
        return tuple(pool.map(lambda one: _one(one, end, number), processes))


def _one(process: RankProcess, end: float, number: int | None) -> Taken:
    taken = _py_spy(process, end)
    if not taken.stacks and number is not None:
        other = _by_signal(process, end, number)
        return other if other.stacks else msgspec.structs.replace(other, problem=f"{taken.problem}; {other.problem}")
    return taken


def tool() -> str | None:
    """Return the path of py-spy: beside this Python, or in the path."""
    beside = os.path.join(os.path.dirname(sys.executable), "py-spy")
    return beside if os.access(beside, os.X_OK) else shutil.which("py-spy")


def _py_spy(process: RankProcess, end: float) -> Taken:
    import subprocess

    program = tool()
    if program is None:
        return Taken(process=process, problem="py-spy is not installed (pip install 'preflight-torch[live]')")
    left = min(EACH, end - time.monotonic())
    if left <= 0:
        return Taken(process=process, problem="the deadline came before its turn")
    command = [program, "dump", "--nonblocking", "--json", "--pid", str(process.pid)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=left, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return Taken(process=process, problem=f"py-spy did not answer in {left:.0f} s")
    except OSError as error:
        return Taken(process=process, problem=f"py-spy: {error}")
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return Taken(process=process, problem=f"py-spy: {said[0] if said else f'exit code {done.returncode}'}"[:200])
    return _read(process, done.stdout, "py-spy")


def _by_signal(process: RankProcess, end: float, number: int) -> Taken:
    """Send the signal, and read what is added to the file that is the process's stderr."""
    name = signal.Signals(number).name
    if process.state in ("T", "t", "Z", "X"):
        return Taken(process=process, problem=f"a process in state {process.state} handles no {name}")
    if not catches(process.pid, number):
        return Taken(process=process, problem=f"it does not catch {name}, which would end it")
    path = f"/proc/{process.pid}/fd/2"
    try:
        if not os.path.isfile(path):
            return Taken(process=process, problem="its stderr is no file; read the stacks where it goes")
        before = os.path.getsize(path)
        os.kill(process.pid, number)
    except OSError as error:
        return Taken(process=process, problem=f"{name}: {error.strerror}")
    added = b""
    end = min(end, time.monotonic() + EACH)
    while time.monotonic() < end:
        time.sleep(_WAIT)
        try:
            with open(path, "rb") as file:
                file.seek(before)
                now = file.read(1 << 22)
        except OSError as error:
            return Taken(process=process, problem=f"{name}: {error.strerror}")
        if now and now == added and b"most recent call first" in now:
            return _read(process, now, "faulthandler")
        added = now
    return Taken(process=process, problem=f"it printed no stacks on {name} (faulthandler.register({name}))")


def catches(pid: int, number: int) -> bool:
    """Tell whether a process has a handler for a signal."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            mask = next((line.split()[1] for line in file if line.startswith("SigCgt:")), "0")
    except OSError:
        return False
    return bool(int(mask, 16) >> (number - 1) & 1)


def _read(process: RankProcess, content: bytes, how: str) -> Taken:
    from preflight.source.dumps import stack_dump
    from preflight.source.dumps.opening import read_dump

    who = Who(rank=process.rank, local_rank=process.local_rank, pid=process.pid)
    part = read_dump(stack_dump, content, LogFile(index=0, path=f"{how} of pid {process.pid}", kind="stacks", who=who))
    stacks = tuple(msgspec.structs.replace(stack, file=None) for stack in part.stacks)
    return Taken(process=process, stacks=stacks, how=how, problem=None if stacks else part.problem or "no stacks")
