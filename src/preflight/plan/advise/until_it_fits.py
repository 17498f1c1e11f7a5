"""Several changes that make a layout fit where none does alone."""

from __future__ import annotations

import math

import msgspec

from preflight.cost.machine import Coefficients
from preflight.plan.advise.sensitivities import Tried, tried
from preflight.plan.request import Request
from preflight.vocabulary.plan import Candidate

_MOST = 5
# What changes the numbers that are computed is tried only when nothing else is left.
_RELUCTANT = 10.0


def until_it_fits(request: Request, coefficients: Coefficients | None = None) -> list[Tried]:
    """Return the changes, in the order in which to make them; empty when the formulas find none.

    Each round takes the change that saves most memory for the time that it costs, and goes on from there.
    """
    path: list[Tried] = []
    now = request
    for _ in range(_MOST):
        trials = tried(now, coefficients)
        fitting = [trial for trial in trials if trial.after.memory.fits == "yes"]
        if fitting:
            return [*path, min(fitting, key=_seconds)]
        best = max(trials, key=_worth, default=None)
        if best is None or not _saves(path[-1].after if path else None, best):
            return []
        path.append(best)
        now = msgspec.structs.replace(now, run=best.change.run, parallel=best.change.parallel)
    return []


def _seconds(trial: Tried) -> float:
    seconds = trial.after.step.seconds.mid if trial.after.step else 0.0
    return seconds * (1.0 if trial.change.exact else _RELUCTANT)


def _bytes(candidate: Candidate) -> float:
    return candidate.memory.device_bytes.mid if candidate.memory.device_bytes else float("inf")


def _saves(before: Candidate | None, trial: Tried) -> bool:
    return before is None or _bytes(trial.after) < 0.98 * _bytes(before)


def _worth(trial: Tried) -> float:
    """Return how good a change is: little memory first, little time next."""
    return -_bytes(trial.after) * math.sqrt(max(_seconds(trial), 1e-9))
