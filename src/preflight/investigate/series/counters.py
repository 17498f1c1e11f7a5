"""Counters of steps: those that begin again in each epoch are laid end to end, those of a restarted run are not."""

from __future__ import annotations

from typing import Any

ALIKE = 0.02
"""Rounds of a counter that begins again in each epoch come equally far, but for this share."""
ROUNDS = 3
"""So many rounds are needed where no epoch is told."""


def laid_end_to_end(steps: Any, epochs: Any) -> Any | None:
    """The steps counted on through the epochs; None where the counter never begins again, or a run does.

    Args:
        steps: The steps as printed, -1 where there is none.
        epochs: The epoch of each line, NaN where none was told.
    """
    import numpy

    told = numpy.flatnonzero(steps >= 0)
    if len(told) < 6 or len(told) < len(steps):
        return None
    falls: Any = numpy.flatnonzero(numpy.diff(steps) < 0) + 1
    if not len(falls) or len(falls) > len(steps) // 3:
        return None
    begins = numpy.concatenate([[0], falls])
    ends = numpy.concatenate([falls, [len(steps)]])
    if not (_epochs_rise(epochs, falls) or _rounds_alike(steps, begins, ends)):
        return None
    length = int(steps.max()) + 1
    rounds: Any = numpy.repeat(numpy.arange(len(begins)), ends - begins)
    return steps + rounds * length


def _epochs_rise(epochs: Any, falls: Any) -> bool:
    """Whether each time that the counter begins again the epoch is a later one."""
    import numpy

    before, after = epochs[falls - 1], epochs[falls]
    return bool(numpy.isfinite(before).all() and numpy.isfinite(after).all() and (after > before).all())


def _rounds_alike(steps: Any, begins: Any, ends: Any) -> bool:
    """Whether all rounds begin and end where the others do; the first may begin later, the last end earlier."""
    tops, starts = steps[ends[:-1] - 1], steps[begins[1:]]
    if len(begins) <= ROUNDS:
        return False
    top = int(tops.max())
    return bool((top - tops <= ALIKE * top).all() and (starts - int(starts.min()) <= ALIKE * top).all())
