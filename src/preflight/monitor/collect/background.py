"""A thread beside the program, which it need not know of."""

from __future__ import annotations

import _thread
import contextlib
import time
from collections.abc import Callable


class Background:
    """Does something again and again, whenever it is woken or some time has passed, until it is ended.

    A plain thread, which the program does not meet when it counts or traces its own.

    Attributes:
        awake: Whether it was woken and has not begun yet.
        running: Whether there is a thread; there may be none where a process may have no more of them.
        spent_ns: Its CPU time.
    """

    def __init__(self, work: Callable[[], None], interval: float) -> None:
        """Take what is to be done, which must not raise, and after how many seconds at the latest."""
        self._work = work
        self._interval = interval
        self._wake = _thread.allocate_lock()
        self._wake.acquire()
        self._gone = _thread.allocate_lock()
        self._over = False
        self.awake = False
        self.running = False
        self.spent_ns = 0

    def start(self) -> None:
        """Start the thread, unless there is one."""
        if self.running:
            return
        self._over = False
        self._gone.acquire(blocking=False)
        self.running = True
        try:
            _thread.start_new_thread(self._run, ())
        except RuntimeError:
            self.running = False
            self._gone.release()

    def wake(self) -> None:
        """Have it work now."""
        self.awake = True
        with contextlib.suppress(RuntimeError):
            self._wake.release()

    def end(self) -> None:
        """End the thread, and wait a moment until it has: at the end of the interpreter it would be cut off anywhere."""
        self._over = True
        self.wake()
        if self.running and self._gone.acquire(timeout=1.0):
            self._gone.release()

    def forget(self) -> None:
        """Be without a thread: in a forked child there is none."""
        self.running = False
        self._wake = _thread.allocate_lock()

    def _ended(self) -> bool:
        return self._over  # which another thread may have said meanwhile

    def _run(self) -> None:
        before = self.spent_ns
        while not self._over:
            self._wake.acquire(timeout=self._interval)
            self.awake = False
            if not self._ended():
                self._work()
                self.spent_ns = before + time.thread_time_ns()
        self.running = False
        self._gone.release()
