"""Keeps the recorder's share of the run's time: measures it, and thins out what is recorded.

What a detailed iteration costs beyond the others is known from the first ones, so that how rare they have to be need
not be tried out; they become rarer in powers of two, so that ranks that thin differently still share some.
Where the other iterations cost too much by themselves, the norms are taken less often.
Every change is told in the trace, so that nothing is missed without a word.
"""

from __future__ import annotations

import time

from .recorder import Recorder

_LONGEST = 1024
_FEWEST = 16
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
        self.most_detail = recorder.settings.detail_every
        self.most_norms = recorder.settings.norms_every
        self._now = clock()
        self._spent = recorder.spent
        # Of the iterations since the last decision: seconds without the recorder, and with it the costs of those in
        # which nothing is taken in detail.
        self._count = 0
        self._work = 0.0
        self._plain: list[float] = []
        self._dear: list[float] = []  # costs of the iterations that belong to the next detailed one
        self._detail: float | None = None  # what a detailed iteration costs, with the fingerprints taken before it

    def boundary(self) -> None:
        """An iteration has ended."""
        recorder = self.recorder
        now, spent = clock(), recorder.spent
        cost = (spent - self._spent) / 1e9
        work = max(now - self._now - cost, 0.0)
        self._now, self._spent = now, spent
        number = recorder.iteration
        if self.share <= 0 or number < _SETTLE:
            return
        self._count += 1
        self._work += work
        if self._detailed(number):
            self._dear.append(cost)
            taken, self._dear = sum(self._dear) - self._usual() * (len(self._dear) - 1), []
            self._detail = taken if self._detail is None else (self._detail + taken) / 2
        elif self._detailed(number + 1):
            self._dear.append(cost)
        else:
            self._plain.append(cost)
        # A decision covers at least one iteration with norms, or the sample would say nothing about their cost.
        if number + 1 >= recorder.detail_until + _WINDOW and self._count >= max(_WINDOW, recorder.norms_every):
            self._decide(number)
            self._count, self._work, self._plain = 0, 0.0, []

    def _detailed(self, number: int) -> bool:
        recorder = self.recorder
        return number < recorder.detail_until or (recorder.detail_every > 0 and number % recorder.detail_every == 0)

    def _usual(self) -> float:
        """What recording an iteration costs in which nothing is taken in detail."""
        return sum(self._plain) / len(self._plain) if self._plain else 0.0

    def _decide(self, number: int) -> None:
        recorder = self.recorder
        work = max(self._work / self._count, 1e-9)
        usual = self._usual()
        more = max((self._detail or 0.0) - usual, 0.0)
        every = recorder.detail_every
        share = self._expected(work, usual, more, every)
        allowed = self.share
        if number < _EARLY and work < _SHORT:
            allowed = max(allowed, _EARLY_COST / work)
        if share > allowed:
            self._thin(work, usual, more, allowed)
        elif recorder.norms_every > self.most_norms:
            if self._expected(work, 2 * usual, more, every) <= allowed / 2:
                recorder.norms_every = max(self.most_norms, recorder.norms_every // 2)
                self._tell("norms", recorder.norms_every, share)
        elif every > self.most_detail and self._expected(work, usual, 2 * more, every) <= allowed / 2:
            recorder.detail_every = max(self.most_detail, every // 2)
            self._tell("detail", recorder.detail_every, share)

    @staticmethod
    def _expected(work: float, usual: float, more: float, every: int) -> float:
        """The share of recording, where every so many iterations one costs so much more."""
        cost = usual + (more / every if every else 0.0)
        return cost / (work + cost)

    def _thin(self, work: float, usual: float, more: float, allowed: float) -> None:
        """Leave to the detail what the rest leaves to it, and at least a quarter; then see to the rest."""
        recorder = self.recorder
        every = recorder.detail_every
        share = self._expected(work, usual, more, every)
        room = max(allowed - self._expected(work, usual, 0.0, 0), allowed / 4)
        if every and every < _LONGEST and self._expected(work, 0.0, more, every) > room:
            power = _FEWEST
            while power <= every or (power < _LONGEST and self._expected(work, 0.0, more, power) > room):
                power *= 2
            recorder.detail_every = power
            self._tell("detail", power, share)
        left = self._expected(work, usual, more, recorder.detail_every)
        # Where detail was made rarer just now that may do: faults are seen by the norms of every iteration.
        late = left > (2 * allowed if recorder.detail_every != every else allowed)
        if late and recorder.norms_every < _LONGEST:
            recorder.norms_every = max(2, recorder.norms_every * 2)
            self._tell("norms", recorder.norms_every, share)

    def _tell(self, what: str, every: int, share: float) -> None:
        recorder = self.recorder
        recorder.put("thinned", (recorder.number(), recorder.iteration, what, every, "budget", round(share, 4)))
