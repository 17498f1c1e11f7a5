"""Regression on noise that remembers itself: an autoregression of what is left takes the memory out of it first.

Its order is chosen by Akaike's criterion, and its coefficients are raised by what a regression of this size takes from them:
residuals remember less than the noise did.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from preflight.investigate.statistics.student import upper_tail

MOST_LAGS = 3
"""Values before that the noise may remember; step times and losses of trainers were never seen to need more."""
MOST_MEMORY = 0.98


class Fit(NamedTuple):
    """The coefficients of a regression and their covariance.

    ``freedom`` counts how many values without memory would tell as much as these do, less the coefficients.
    """

    coefficients: Any
    covariance: Any
    freedom: float

    def above(self, weights: list[float]) -> float:
        """The probability of a weighted sum of the coefficients as high as it is, were it zero."""
        import numpy

        along: Any = numpy.array(weights)
        wide = float(along @ self.covariance @ along)
        if not wide > 0:
            return 1.0
        return upper_tail(float(along @ self.coefficients) / math.sqrt(wide), self.freedom)


def whitened_fit(numbers: Any, columns: Any) -> Fit | None:
    """Regress the numbers on the columns; None where there are too few of them, or the columns say the same."""
    import numpy

    count, width = columns.shape
    if count < 10 * width or numpy.linalg.matrix_rank(columns) < width:
        return None
    found = numpy.linalg.lstsq(columns, numbers, rcond=None)[0]
    lags = numpy.zeros(0)
    for _ in range(2):
        lags = _autoregression(numbers - columns @ found, width)
        y, x = _filtered(numbers, lags), _filtered(columns, lags)
        found = numpy.linalg.lstsq(x, y, rcond=None)[0]
    rest = y - x @ found
    freedom = len(y) - width - len(lags)
    covariance = numpy.linalg.pinv(x.T @ x) * float(rest @ rest) / freedom
    memory = max(0.0, float(lags.sum()))
    return Fit(found, covariance, max(1.0, freedom * (1 - memory) / (1 + memory)))


def _filtered(values: Any, lags: Any) -> Any:
    """The values less what those before them tell of them."""
    order = len(lags)
    found = values[order:].copy()
    for back, share in enumerate(lags, 1):
        found -= share * values[order - back : len(values) - back]
    return found


def _autoregression(rest: Any, width: int) -> Any:
    """The autoregression of what is left (Yule and Walker), of the order that Akaike's criterion chooses."""
    import numpy

    count = len(rest)
    centred = rest - rest.mean()
    shared = [float(centred[back:] @ centred[: count - back]) / count for back in range(MOST_LAGS + 1)]
    best, score = numpy.zeros(0), math.inf
    if not shared[0] > 0:
        return best
    for order in range(MOST_LAGS + 1):
        table: Any = numpy.array([[shared[abs(i - j)] for j in range(order)] for i in range(order)]).reshape(
            order, order
        )
        lags = numpy.linalg.lstsq(table, numpy.array(shared[1 : order + 1]), rcond=None)[0]
        left = shared[0] - float(lags @ numpy.array(shared[1 : order + 1]))
        new = count * math.log(max(left, 1e-12 * shared[0])) + 2 * order
        if new < score:
            best, score = lags, new
    total = float(best.sum())
    if total <= 0:
        return best
    # The mean takes (1 + 3 total) / n from it, every further column about (1 + total) / n.
    true = min(MOST_MEMORY, total + ((1 + 3 * total) + (width - 1) * (1 + total)) / count)
    return best * (true / total)
