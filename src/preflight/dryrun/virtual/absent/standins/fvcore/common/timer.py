"""A clock that can be paused."""

from __future__ import annotations

import time


class Timer:
    """Counts seconds."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin anew."""
        self._began, self._before, self._paused = time.perf_counter(), 0.0, False

    def pause(self) -> None:
        """Count no more."""
        self._before, self._paused = self.seconds(), True

    def is_paused(self) -> bool:
        """Whether it is paused."""
        return self._paused

    def resume(self) -> None:
        """Count on."""
        self._began, self._paused = time.perf_counter(), False

    def seconds(self) -> float:
        """Return the seconds that were counted."""
        return self._before if self._paused else self._before + time.perf_counter() - self._began
