"""Keeps the recorder's share of the run's time: measures it, and thins out what is recorded.

The detailed iterations become rarer first, in powers of two so that ranks that thin differently still share some;
then the norms are taken less often. Every change is told in the trace, so that nothing is missed without a word.
"""

from __future__ import annotations

import time

from .recorder import Recorder

_LONGEST = 1024
_RARE = 64
_WINDOW = 8  # iterations between two decisions
_SETTLE = 3  # first iterations that are not counted: imports, warm-up of kernels
_EARLY = 200  # iterations in which short steps may be recorded at a cost that a long run makes up for
_EARLY_COST = 5e-3  # seconds per iteration: 200 of them are one second of the whole run
_SHORT = 0.1  # seconds of an iteration up to which it is short
clock = time.perf_counter


class Budget:
    """Decides at the end of iterations how much is recorded in the next ones."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.share = recorder.settings.budget / 100
        self.smallest = recorder.settings.detail_every
        self._began = 0.0
        self._spent = 0
        self._at = -1

    def boundary(self) -> None:
        """An iteration has ended."""
        recorder = self.recorder
        if self.share <= 0 or recorder.iteration < max(recorder.detail_until, _SETTLE):
            self._began, self._spent, self._at = clock(), recorder.spent, recorder.iteration
            return
        # A decision covers at least one detailed iteration, or the sample would say nothing about their cost.
        if recorder.iteration - self._at < max(_WINDOW, recorder.detail_every):
            return
        now = clock()
        elapsed = max(now - self._began, 1e-9)
        share = (recorder.spent - self._spent) / 1e9 / elapsed
        allowed = self.share
        count = recorder.iteration - self._at
        if recorder.iteration < _EARLY and elapsed < _SHORT * count:
            allowed = max(allowed, _EARLY_COST * count / elapsed)
        if share > allowed:
            self._thin(share, allowed)
        elif share < allowed / 4:
            self._thicken(share)
        self._began, self._spent, self._at = now, recorder.spent, recorder.iteration

    def _thin(self, share: float, allowed: float) -> None:
        recorder = self.recorder
        if recorder.detail_every and recorder.detail_every < _LONGEST:
            power = 16
            while power <= recorder.detail_every:
                power *= 2
            recorder.detail_every = power
            self._tell("detail", power, share)
        # Where detail is rare already, what costs too much is something else.
        rare = not recorder.detail_every or recorder.detail_every > _RARE
        if (share > 2 * allowed or rare) and recorder.norms_every < _LONGEST:
            recorder.norms_every = max(2, recorder.norms_every * 2)
            self._tell("norms", recorder.norms_every, share)

    def _thicken(self, share: float) -> None:
        recorder = self.recorder
        if recorder.norms_every > recorder.settings.norms_every:
            recorder.norms_every = max(recorder.settings.norms_every, recorder.norms_every // 2)
            self._tell("norms", recorder.norms_every, share)
        elif recorder.detail_every > self.smallest:
            recorder.detail_every = max(self.smallest, recorder.detail_every // 2)
            self._tell("detail", recorder.detail_every, share)

    def _tell(self, what: str, every: int, share: float) -> None:
        recorder = self.recorder
        recorder.put("thinned", (recorder.number(), recorder.iteration, what, every, "budget", round(share, 4)))
