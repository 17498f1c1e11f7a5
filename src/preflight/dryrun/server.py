"""Many dry runs from one process: PyTorch is imported once, and every job is a fork.

    with Server(python) as server:
        profile = server.run(job)

Where processes cannot fork (Windows), every job has a process of its own, as with ``launch.dry_run``.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from preflight.dryrun.launch import CHILD, SETTINGS, Ended, Job, answer, dry_run, environment_of, prepare
from preflight.errors import UsageError
from preflight.vocabulary.profile import Profile

_GRACE = 20.0
"""Seconds that a run has to say what it learned, after it was asked to end."""


class Server:
    """A process that runs dry runs by forking; a context manager.

    ``run`` may be called from several threads at once: the jobs then run side by side.

    Args:
        python: The interpreter; None is the one that runs Preflight. A job must not name another one.
    """

    def __init__(self, python: str | None = None) -> None:
        self.python = python or sys.executable
        self._process: subprocess.Popen[bytes] | None = None
        self._told: dict[str, queue.Queue[dict[str, Any]]] = {}
        self._lock = threading.Lock()
        self._folder = tempfile.TemporaryDirectory(prefix="preflight-server-")

    def __enter__(self) -> Server:
        """Start the process; it imports while the first job is prepared.

        Raises:
            UsageError: The interpreter cannot be started.
        """
        if hasattr(os, "fork"):
            try:
                self._process = subprocess.Popen(
                    [self.python, str(CHILD), "--serve"],
                    env={**os.environ, **SETTINGS, "TMPDIR": self._folder.name, "MPLCONFIGDIR": self._folder.name},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            except OSError as error:
                raise UsageError(
                    f"--python {self.python}: {error.strerror or error}", "name a Python that has torch"
                ) from None
            threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the process and what still runs."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            with contextlib.suppress(OSError):
                process.stdin.close()
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._folder.cleanup()

    def run(self, job: Job) -> Profile:
        """Run a job; the same answers and errors as of ``launch.dry_run``.

        Raises:
            UsageError: The interpreter lacks a PyTorch that can do it.
            InputError: The job ended without an answer.
        """
        process = self._process
        if process is None or process.poll() is not None:
            return dry_run(job if job.python else _with(job, self.python))
        with tempfile.TemporaryDirectory(prefix="preflight-dry-run-") as scratch:
            order, output = prepare(job, scratch), os.path.join(scratch, "output.txt")
            told = self._told[order] = queue.Queue()
            line = {"job": order, "environment": environment_of(job, scratch), "folder": os.getcwd(), "output": output}
            try:
                with self._lock:
                    assert process.stdin is not None
                    process.stdin.write(json.dumps(line).encode() + b"\n")
                    process.stdin.flush()
                status, late = _follow(told, job.seconds)
            except (OSError, EOFError):
                return dry_run(job if job.python else _with(job, self.python))
            finally:
                self._told.pop(order, None)
            printed = Path(output)
            text = printed.read_text(encoding="utf-8", errors="replace") if printed.exists() else ""
            return answer(job, scratch, Ended(status, text, late), self.python)

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        """Give what the process says to whom it concerns; at its end everybody who waits is told."""
        assert process.stdout is not None
        for line in process.stdout:
            try:
                message = json.loads(line)
            except ValueError:
                continue  # something that an import printed
            place = self._told.get(message.get("started") or message.get("ended") or "")
            if place is not None:
                place.put(message)
        process.stdout.close()
        for place in list(self._told.values()):
            place.put({"gone": None})


def _follow(told: queue.Queue[dict[str, Any]], seconds: float) -> tuple[int, bool]:
    """Wait for the end of a job; return its status and whether the time limit ended it.

    Raises:
        EOFError: The server has ended.
    """
    pid = _next(told, None)["pid"]
    for patience, then in ((seconds, signal.SIGTERM), (_GRACE, signal.SIGKILL), (None, None)):
        try:
            return _next(told, patience)["status"], then != signal.SIGTERM
        except queue.Empty:
            with contextlib.suppress(ProcessLookupError):
                if then == signal.SIGKILL:
                    os.killpg(pid, then)
                elif then is not None:
                    os.kill(pid, then)
    raise AssertionError("the last wait has no limit")


def _next(told: queue.Queue[dict[str, Any]], seconds: float | None) -> dict[str, Any]:
    message = told.get(timeout=seconds)
    if "gone" in message:
        raise EOFError
    return message


def _with(job: Job, python: str) -> Job:
    import msgspec

    return msgspec.structs.replace(job, python=python)
