"""Times: warm-up, repeats, and what the repeats say."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

Row = dict[str, Any]


def samples_of(
    function: Callable[[], Any], settings: dict[str, Any], finish: Callable[[], Any] | None = None
) -> list[float]:
    """Return how long each repeat took, after the warm-up, until the number or the time is used up (ten at least).

    Args:
        function: What is timed.
        settings: ``warm_up`` and ``repeats``, numbers, and ``seconds``, the time for one operation.
        finish: Waits for what a device has not done yet.
    """
    wait = finish or (lambda: None)
    for _ in range(settings["warm_up"]):
        function()
    wait()
    taken: list[float] = []
    until = time.perf_counter() + settings["seconds"]
    while len(taken) < settings["repeats"] and (len(taken) < 10 or time.perf_counter() < until):
        began = time.perf_counter()
        function()
        wait()
        taken.append(time.perf_counter() - began)
    return taken


def row(name: str, unit: str, better: str, samples: list[float], **details: Any) -> Row:
    """Return one row of results."""
    return {"name": name, "unit": unit, "better": better, "samples": samples, "details": details}


def summary(samples: list[float]) -> tuple[float, float | None, float | None]:
    """Return the median with an interval of 95 % for it, from the order of the samples alone.

    Between the k-th smallest and the k-th largest of n samples lies the median of what they were drawn from with a
    probability of 1 - 2 P(B < k), B binomial of n and 1/2. Below six samples there is no such interval.
    """
    from math import comb

    ordered = sorted(samples)
    n = len(ordered)
    middle = (ordered[n // 2] + ordered[(n - 1) // 2]) / 2
    below, k = 0.0, 0
    while below + comb(n, k) / 2.0**n <= 0.025:
        below += comb(n, k) / 2.0**n
        k += 1
    return (middle, ordered[k - 1], ordered[n - k]) if k else (middle, None, None)
