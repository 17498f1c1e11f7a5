"""A thread beside the script: tells how far the run is, and ends it at a limit, whatever the script does.

A run ends by an exception in the main thread. A script may be in native code that takes no notice, may catch every
exception, or may leave by ``os._exit``: then what was learned so far is written from here.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from preflight.dryrun.virtual.progress import Progress

GRACE = 4.0
"""Seconds that the main thread has to end after it was told to."""
TICK = 0.25
KEEP = 5.0
"""After so many seconds, what was learned is written again, for the case that the process is killed."""
_leave, _open, _rename = os._exit, open, os.replace  # as they are before the guard redirects them


class Watchdog:
    """Watches over one run.

    Args:
        job: The job: ``result``, ``memory``, ``scratch``.
        progress: Where the run is.
        operators: Returns the number of operators so far.
        learned: Returns what was learned so far, as plain values.
    """

    def __init__(
        self,
        job: dict[str, Any],
        progress: Progress,
        operators: Callable[[], int],
        learned: Callable[[], dict[str, Any]],
    ) -> None:
        self.job, self.progress, self.operators, self.learned = job, progress, operators, learned
        self.began = time.monotonic()
        self.reason = ""
        self.finished = False
        self._main = threading.main_thread().ident
        self._told_at: float | None = None
        self._kept_at = self.began
        self._lock = threading.Lock()
        self._read, self._write = os.pipe()

    @property
    def seconds(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self.began

    def start(self) -> None:
        """Begin to watch; from now on ``os._exit`` leaves with an answer."""
        os.set_blocking(self._write, False)
        # The C handler of a signal writes here at once, even while the main thread is in native code.
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        os._exit = self._exited  # type: ignore[assignment]
        self.progress.give_up = lambda: self._answer("stopped")
        threading.Thread(target=self._watch, name="preflight", daemon=True).start()

    def finish(self) -> None:
        """The run has ended by itself."""
        self.finished = True
        os._exit = _leave
        with contextlib.suppress(ValueError):
            signal.set_wakeup_fd(-1)

    def _watch(self) -> None:
        while not self.finished:
            readable, _, _ = select.select([self._read], [], [], TICK)
            if readable and signal.SIGTERM in os.read(self._read, 256):
                self._tell("time is up")
            with contextlib.suppress(Exception):  # the main thread changes what is read here
                self._show()
                self._look()

    def _show(self) -> None:
        where = {
            "phase": self.progress.phase,
            "step": self.progress.step,
            "operators": self.operators(),
            "seconds": self.seconds,
        }
        path = os.path.join(self.job["scratch"], "progress.json")
        _replace(path, where)

    def _look(self) -> None:
        limit = self.job.get("memory")
        if limit and self._told_at is None and resident() > limit:
            self._tell("memory is up")
            signal.pthread_kill(self._main or 0, signal.SIGTERM)
        now = time.monotonic()
        if self._told_at is not None and now - self._told_at > GRACE:
            self._answer(self.reason)
        elif now - self._kept_at > KEEP:
            _replace(self.job["result"] + ".partial", {"outcome": "time is up", **self._place(), **self.learned()})
            self._kept_at = time.monotonic()

    def _tell(self, reason: str) -> None:
        if self._told_at is None:
            self.reason, self._told_at = reason, time.monotonic()

    def _place(self) -> dict[str, Any]:
        """Return where the main thread is, in the person's own code."""
        stack = []
        frame = sys._current_frames().get(self._main or 0)
        # A frame that is held keeps the tensors of a function that has returned meanwhile: nothing here waits for a file.
        while frame is not None:
            stack.append((frame.f_code.co_filename, frame.f_lineno))
            frame = frame.f_back
        own = next((place for place in stack if self.progress.owns(place[0])), None)
        return {"stuck": f"{os.path.basename(own[0])}:{own[1]}" if own else ""}

    def _answer(self, outcome: str, **more: Any) -> None:
        """Write the answer from whatever thread this is, and leave."""
        with self._lock:
            if self.finished:
                return
            self.finished = True
            for _ in range(20):
                try:
                    told = self.learned()
                    break
                except RuntimeError:  # a dictionary changed while it was read
                    time.sleep(0.05)
            else:
                told = {}
            _replace(self.job["result"], {"outcome": outcome, **self._place(), **more, **told})
            sys.stdout.flush()
            _leave(0)

    def _exited(self, status: int) -> None:
        if threading.get_ident() == self._main:
            self._answer("exited", status=str(status))
        _leave(status)


def follow_threads(mode: Any) -> None:
    """Let the threads that the script starts run on the virtual GPU, too: a mode of PyTorch is that of one thread."""
    start = threading.Thread.start

    def started(thread: Any) -> None:
        run = thread.run

        def inside() -> None:
            with mode:
                run()

        thread.run = inside
        start(thread)

    threading.Thread.start = started  # type: ignore[method-assign,assignment]


def _replace(path: str, content: dict[str, Any]) -> None:
    with _open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(content, file)
    _rename(path + ".new", path)


def resident() -> int:
    """Return the bytes of memory that this process holds; 0 where the system does not say."""
    try:
        with _open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
