"""Calls that may block for ever, made in a thread that is left behind when they do."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from preflight.errors import PreflightError

T = TypeVar("T")


class StoreSilent(PreflightError):
    """The store did not answer in time, or is not there."""


class Bounded:
    """One thread that makes calls, one at a time; a call that does not come back is given up, and so is the thread.

    A store's own timeout bounds how long it waits for a key, not how long it waits for a server that is stopped.
    """

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], queue.SimpleQueue[tuple[bool, Any]]]] = (
            queue.SimpleQueue()
        )
        self._stuck = False
        self._thread: threading.Thread | None = None

    def call(self, function: Callable[[], T], seconds: float, what: str = "the store") -> T:
        """Return what the function returns.

        Raises:
            StoreSilent: It did not return in time, or raised.
        """
        if self._stuck:
            raise StoreSilent(f"{what} does not answer")
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="preflight-store", daemon=True)
            self._thread.start()
        answer: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()
        self._calls.put((function, answer))
        try:
            good, value = answer.get(timeout=max(seconds, 0.0))
        except queue.Empty:
            self._stuck = True
            raise StoreSilent(f"{what} did not answer within {seconds:.1f} s") from None
        if not good:
            raise StoreSilent(f"{what}: {_first_line(value)}") from value
        result: T = value
        return result

    def close(self) -> None:
        """Let the thread end, if it is not stuck."""
        if self._thread is not None and not self._stuck:
            self._calls.put((_Stop, queue.SimpleQueue()))

    def _serve(self) -> None:
        while True:
            function, answer = self._calls.get()
            if function is _Stop:
                return
            try:
                answer.put((True, function()))
            except Exception as error:
                answer.put((False, error))


class _Stop:
    """Asks the thread to end."""


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
