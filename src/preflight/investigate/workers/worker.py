"""One process that does things for a live tool: asked with a deadline, killed and replaced when it does not answer."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
from contextlib import suppress
from typing import Any

PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
"""Where ``preflight`` is found, for an interpreter that may not have it."""


class Failed(Exception):
    """What was asked for went wrong."""


class TimedOut(Failed):
    """What was asked for was not done in time."""


class Worker:
    """A process that is started when it is first asked.

    Args:
        python: The interpreter: the one that trains.
        variables: Of its environment, beside those of this process.
    """

    def __init__(self, python: str, variables: dict[str, str] | None = None) -> None:
        self.python, self.variables = python, variables or {}
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._said: Any = None
        self.started = 0

    @property
    def pid(self) -> int | None:
        """The number of the process, while there is one."""
        return None if self._process is None else self._process.pid

    def ask(self, where: str, seconds: float, /, **given: Any) -> Any:
        """Return what ``module:function`` returns.

        Raises:
            TimedOut: It did not return in time; the process was killed.
            Failed: It raised, or the process ended.
        """
        module, _, function = where.partition(":")
        process = self._running()
        order = json.dumps({"module": module, "function": function, "with": given})
        try:
            assert process.stdin is not None
            process.stdin.write(order + "\n")
            process.stdin.flush()
            line = self._answers.get(timeout=seconds)
        except queue.Empty:
            self.kill()
            raise TimedOut(f"not done within {seconds:.0f} s") from None
        except OSError:
            line = None
        if line is None:
            raise Failed(self._why_ended())
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(str(answer["error"]))
        return answer["answer"]

    def _running(self) -> subprocess.Popen[str]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.kill()
        paths = [PACKAGE, *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", **self.variables}
        self._said = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._answers = queue.SimpleQueue()
        self._process = subprocess.Popen(
            [self.python, "-m", "preflight.investigate.workers.serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._said, text=True, env=environment, start_new_session=True,
        )  # fmt: skip
        self.started += 1
        threading.Thread(target=_read, args=(self._process, self._answers), daemon=True).start()
        return self._process

    def _why_ended(self) -> str:
        code = None
        if self._process is not None:
            try:
                code = self._process.wait(timeout=2.0)
            except subprocess.TimeoutExpired:
                code = None
        self._said.seek(0)
        lines = [line for line in self._said.read().splitlines() if line.strip()]
        how = f"killed by signal {-code}" if code is not None and code < 0 else f"ended with {code}"
        return (
            f"the process was {how}" if how.startswith("killed") else f"the process {how}: {lines[-1] if lines else ''}"
        )

    def kill(self) -> None:
        """End the process and everything that it started, at once."""
        if self._process is None:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):  # the kernel holds it, in a driver or a dead file system: left behind
            self._process.wait(timeout=2.0)
        for stream in (self._process.stdin, self._said):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        self._process = None


def _read(process: subprocess.Popen[str], answers: queue.SimpleQueue[str | None]) -> None:
    """Pass on the answers of one process; None when it says no more."""
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            answers.put(line)
    answers.put(None)
