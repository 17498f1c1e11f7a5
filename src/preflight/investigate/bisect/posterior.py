"""Where a breaking point lies, as probabilities: what a failure that comes only now and then lets one conclude.

Below the breaking point a run passes. From it on, a run fails with some chance, which is known, or known to lie on a grid.
A failure therefore excludes every breaking point above it for certain; a pass speaks against those below it, the more
the larger the chance.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import accumulate

GRID = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 1.0)
"""Chances that are considered where none is given."""
_CANDIDATES = 96


class Posterior:
    """Probabilities of the index at which failures begin, from 1 to the last."""

    def __init__(self, count: int, chances: Sequence[float] = (1.0,)) -> None:
        """Begin with every index from 1 to ``count - 1``, and every chance, equally likely."""
        share = 1.0 / ((count - 1) * len(chances))
        self.chances = tuple(chances)
        self._weights = [[0.0] * len(chances)] + [[share] * len(chances) for _ in range(count - 1)]

    def update(self, at: int, failed: bool) -> None:
        """Take in a run at an index.

        Raises:
            ValueError: It cannot be: a failure where none is possible.
        """
        for begins, row in enumerate(self._weights):
            for k, chance in enumerate(self.chances):
                if failed:
                    row[k] *= chance if begins <= at else 0.0
                elif begins <= at:
                    row[k] *= 1.0 - chance
        total = math.fsum(w for row in self._weights for w in row)
        if total <= 0.0:
            raise ValueError("contradictory runs")
        self._weights = [[w / total for w in row] for row in self._weights]

    def marginal(self) -> list[float]:
        """Probability of each index."""
        return [math.fsum(row) for row in self._weights]

    def chance(self) -> float:
        """The chance of a failure that is expected."""
        return math.fsum(w * c for row in self._weights for w, c in zip(row, self.chances, strict=True))

    def runs_to_exclude(self, wrong: float) -> int:
        """Return how many passes at a place that can fail are together as improbable as ``wrong``, the chance being unsure."""
        beliefs = [math.fsum(row[k] for row in self._weights) for k in range(len(self.chances))]
        left = list(beliefs)
        for runs in range(1, 1000):
            left = [share * (1.0 - chance) for share, chance in zip(left, self.chances, strict=True)]
            if math.fsum(left) <= wrong:
                return runs
        return 1000

    def best(self) -> tuple[int, float]:
        """The likeliest index and its probability."""
        marginal = self.marginal()
        at = max(range(len(marginal)), key=lambda k: (marginal[k], -k))
        return at, marginal[at]

    def choose(self, allowed: Iterable[int]) -> tuple[int | None, float]:
        """Return the index whose run is expected to tell most, and how many bits."""
        marginal = self.marginal()
        passes = [math.fsum(w * (1.0 - c) for w, c in zip(row, self.chances, strict=True)) for row in self._weights]
        fails = [m - q for m, q in zip(marginal, passes, strict=True)]
        now = _entropy(math.fsum(map(_xlogx, marginal)), 1.0)
        low_q, low_f = list(accumulate(passes)), list(accumulate(fails))
        low_m = list(accumulate(marginal))
        log_q, log_f = list(accumulate(map(_xlogx, passes))), list(accumulate(map(_xlogx, fails)))
        log_m = list(accumulate(map(_xlogx, marginal)))
        best: tuple[int | None, float] = (None, 0.0)
        for at in self._candidates(allowed, low_m):
            fail, passed = low_f[at], low_q[at] + low_m[-1] - low_m[at]
            after = 0.0
            if fail > 0.0:
                after += fail * _entropy(log_f[at], fail)
            if passed > 0.0:
                after += passed * _entropy(log_q[at] + log_m[-1] - log_m[at], passed)
            if now - after > best[1] + 1e-12:
                best = (at, now - after)
        return best

    def _candidates(self, allowed: Iterable[int], low: Sequence[float]) -> list[int]:
        """Of many indices, those at evenly spaced shares of the probability."""
        every = sorted(allowed)
        if len(every) <= _CANDIDATES:
            return every
        kept: dict[int, int] = {}
        for at in every:
            kept.setdefault(int(low[at] * _CANDIDATES), at)
        return sorted(kept.values())


def _xlogx(value: float) -> float:
    return value * math.log2(value) if value > 0.0 else 0.0


def _entropy(sum_xlogx: float, total: float) -> float:
    """Entropy in bits of weights with this sum of x log x and this total."""
    return math.log2(total) - sum_xlogx / total


__all__ = ["GRID", "Posterior"]
