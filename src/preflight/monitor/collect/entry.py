"""What a thread is in: calls that have begun and not ended, and the recorder's own work."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .recorder import Recorder

clock = time.perf_counter_ns
"""What the recorder's own cost is measured with."""


class Entry:
    """A call that has begun and not ended."""

    __slots__ = ("about", "args", "began", "context", "name", "number", "object", "parent", "place", "thread")

    def __init__(self, recorder: Recorder, name: str, subject: str, args: dict[str, Any] | None, place: str | None):
        self.name = name
        self.object = subject
        self.args = args
        self.place = place
        thread = recorder.thread
        self.thread = thread.ident
        self.number = recorder.number()
        stack = thread.stack
        self.parent = stack[-1] if stack else -1
        self.context = recorder.context()
        self.about: Any = None
        self.began = time.monotonic_ns()


class Thread(threading.local):
    """What a thread is in: the recorder's own work, and calls that are recorded, by number; and how far it trains."""

    def __init__(self) -> None:
        self.busy = False
        self.turns = 0  # backward passes and steps of this thread
        self.others = 0  # those of other threads when it went backward
        self.waits_since = 0  # the turn of its last backward pass without a step since
        self.ident = threading.get_ident()
        self.stack: list[int] = []


class Work:
    """What the recorder does between two of the program's own instructions."""

    __slots__ = ("_began", "_outer", "_recorder", "_where")

    def __init__(self, recorder: Recorder, where: str) -> None:
        self._recorder = recorder
        self._where = where

    def __enter__(self) -> None:
        thread = self._recorder.thread
        self._outer = thread.busy
        thread.busy = True
        if not self._outer:
            self._recorder.trainers.at_work.add(thread.ident)
        self._began = clock()

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        recorder = self._recorder
        mine = isinstance(error, Exception)
        if error is not None and mine:
            recorder.trouble(self._where, error)
        recorder.thread.busy = self._outer
        if not self._outer:
            recorder.trainers.at_work.discard(recorder.thread.ident)
            recorder.spent += clock() - self._began
        return mine
