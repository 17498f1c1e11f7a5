"""Follows the process of a dry run: how far it is, when it is told to end, and how much memory of the host it may take."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

GRACE = 20.0
"""Seconds that a process has to say what it learned, after it was asked to end."""
_TICK = 0.25
_SHARE = 0.85
"""Of the memory that the host has left, a run may take so much."""
_listeners: list[Callable[[dict[str, Any]], None]] = []


@contextmanager
def listening(listener: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    """Have somebody told how far the dry runs are that are made inside: ``phase``, ``step``, ``operators``, ``seconds``."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def wait(process: subprocess.Popen[bytes], seconds: float, scratch: str) -> tuple[bytes, bool]:
    """Wait for the end of a process; return what it printed, and whether the time limit ended it.

    Args:
        process: The process, the first of its session.
        seconds: After so long it is asked to end, and killed when it does not.
        scratch: Its scratch folder, in which it writes how far it is.

    Where the wait itself is broken off (Ctrl-C reaches this process alone), the other process is ended before that is told.
    """
    try:
        return _waited(process, seconds, scratch)
    except BaseException:
        _kill(process)
        process.communicate()
        raise


def _waited(process: subprocess.Popen[bytes], seconds: float, scratch: str) -> tuple[bytes, bool]:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        try:
            return process.communicate(timeout=min(left, _TICK) if _listeners else left)[0], False
        except subprocess.TimeoutExpired:
            _tell(scratch)
    process.send_signal(signal.SIGTERM if os.name == "posix" else signal.SIGBREAK)  # type: ignore[attr-defined,unused-ignore]
    try:
        return process.communicate(timeout=GRACE)[0], True
    except subprocess.TimeoutExpired:
        _kill(process)
        return process.communicate()[0], True


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _tell(scratch: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        with open(os.path.join(scratch, "progress.json"), encoding="utf-8") as file:
            told = json.load(file)
        for listener in _listeners:
            listener(told)


def memory_limit() -> int | None:
    """Return the bytes of the host that a run may take; None where the system does not say what it has."""
    left = _available()
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as file:
            limit = int(file.read())
            left = limit if left is None else min(left, limit)
    return int(left * _SHARE) if left is not None else None


def _available() -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None
