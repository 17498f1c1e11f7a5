"""Tells one tracker from a thread of its own: a server that hangs holds up neither the training nor another tracker."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from preflight.monitor.live.remarks import reason_of, say

WAITING = 64
"""How many calls may wait for a tracker; with one every five seconds about five minutes."""


class Teller:
    """The calls of one tracker, one after the other.

    Attributes:
        tracker: Who is told.
        failed: Why it is told no more; None while it is.
        dropped: How many calls were given up, the oldest first, since too many were waiting.
        spent: Seconds of processor time that telling has taken.
    """

    def __init__(self, tracker: Any) -> None:
        """Open the tracker where it has something to open.

        Raises:
            Exception: What the tracker raises.
        """
        self.tracker = tracker
        self.name = str(getattr(tracker, "name", type(tracker).__name__))
        self.failed: str | None = None
        self.dropped = 0
        self.spent = 0.0
        self._calls: queue.Queue[Callable[[Any], None] | None] = queue.Queue(WAITING)
        self._close: Callable[[], None] | None = getattr(tracker, "close", None)
        getattr(tracker, "open", lambda: None)()
        self._thread = threading.Thread(target=self._run, name=f"preflight {self.name}", daemon=True)
        self._thread.start()

    @property
    def idle(self) -> bool:
        """Whether nothing waits and no call is under way."""
        return self._calls.unfinished_tasks == 0

    def tell(self, call: Callable[[Any], None] | None) -> None:
        """Let the tracker be told, soon; None closes it after what waits."""
        while True:
            try:
                return self._calls.put_nowait(call)
            except queue.Full:
                with contextlib.suppress(queue.Empty):
                    self._calls.get_nowait()
                    self._calls.task_done()
                    self.dropped += 1

    def close(self, until: float) -> None:
        """Close the tracker once it has taken what waits; leave it alone when that takes too long."""
        self.tell(None)
        self._thread.join(max(until - time.monotonic(), 0.0))
        late = self._thread.is_alive()
        if late or self.dropped:
            left = f"{self.dropped} calls were dropped" if self.dropped else "it did not end in time"
            say(f"{self.name} is too slow and has not taken everything: {left}")

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            if self.failed is None:
                self._do(call)
            self._calls.task_done()
        self._closed()
        self._calls.task_done()

    def _do(self, call: Callable[[Any], None]) -> None:
        began = time.thread_time()
        try:
            call(self.tracker)
        except BaseException as error:  # also what a client raises to end its program
            self.failed = reason_of(error)
            say(f"{self.name} takes no figures: {self.failed}")
            self._closed()
        self.spent += time.thread_time() - began

    def _closed(self) -> None:
        close, self._close = self._close, None
        with contextlib.suppress(BaseException):
            if close is not None:
                close()
