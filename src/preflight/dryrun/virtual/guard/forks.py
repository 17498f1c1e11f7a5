"""Runs many jobs from one process that has PyTorch already: a fork of it for each, so that only the first pays for the imports.

Lines of JSON come in at standard input, ``{"job": path, "environment": {...}, "folder": path, "output": path}``, and go out
at standard output: ``{"ready": null}``, ``{"started": path, "pid": N}`` and ``{"ended": path, "status": N}``. At the end
of the input everything that still runs is ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import traceback
from collections.abc import Callable
from typing import Any


def serve(work: Callable[[str], int]) -> int:
    """Take jobs until the input ends.

    Args:
        work: Runs the job of a path, in the process of its own, and returns the exit status.
    """
    running: dict[int, str] = {}
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    # The handler does nothing; the byte that Python writes for the signal wakes the loop.
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    _say({"ready": None})
    waiting = b""
    while True:
        readable, _, _ = select.select([0, wake_read], [], [])
        if wake_read in readable:
            os.read(wake_read, 4096)
        _collect(running)
        if 0 in readable:
            more = os.read(0, 1 << 16)
            if not more:
                break
            *lines, waiting = (waiting + more).split(b"\n")
            for line in lines:
                _begin(json.loads(line), work, running, (wake_read, wake_write))
    for pid in running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    return 0


def _say(message: dict[str, Any]) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")


def _begin(job: dict[str, Any], work: Callable[[str], int], running: dict[int, str], ours: tuple[int, ...]) -> None:
    pid = os.fork()
    if pid == 0:
        _become(job, work, ours)
    with contextlib.suppress(PermissionError, ProcessLookupError):
        os.setpgid(pid, pid)  # here too, so that the group exists before anybody may be told of it
    running[pid] = job["job"]
    _say({"started": job["job"], "pid": pid})


def _become(job: dict[str, Any], work: Callable[[str], int], ours: tuple[int, ...]) -> None:
    """Be the process of a job, which ends with it."""
    status = 70
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setpgid(0, 0)
        output = os.open(job["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        for spare in (nothing, output, *ours):
            os.close(spare)
        os.environ.clear()
        os.environ.update(job["environment"])
        os.chdir(job["folder"])
        status = work(job["job"])
    except BaseException:
        traceback.print_exc()
    finally:
        import sys

        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _collect(running: dict[int, str]) -> None:
    """Tell of the jobs that have ended."""
    while running:
        try:
            pid, how = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        job = running.pop(pid, None)
        if job is not None:
            _say({"ended": job, "status": os.waitstatus_to_exitcode(how)})
