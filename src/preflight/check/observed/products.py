"""The matrix products of a step that a dry run saw, with their share of the arithmetic."""

from __future__ import annotations

from collections.abc import Callable

from preflight.check.observed.run import Run
from preflight.vocabulary.work import Kind


def share(run: Run, counts: Callable[[Kind], bool]) -> float:
    """Return the share of the floating-point operations of a step that operators of some kind do; 0 without any."""
    work, whole = run.profile.work, total(run)
    if not whole:
        return 0.0
    return sum(work.kinds[at].flop or 0 for at in work.order if counts(work.kinds[at])) / whole


def total(run: Run) -> float:
    """Return the floating-point operations of a step."""
    work = run.profile.work
    return float(sum(work.kinds[at].flop or 0 for at in work.order))
