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
    anew = _epochs_fall(epochs, falls)
    if not (_epochs_rise(epochs, falls[~anew]) or _rounds_alike(steps, begins, ends)):
        return None
    if _epochs_stay(epochs, falls):
        return None
    length = int(steps.max()) + 1
    rounds: Any = numpy.repeat(_counted(epochs, begins, falls[anew]), ends - begins)
    return steps + rounds * length


def _epochs_fall(epochs: Any, falls: Any) -> Any:
    """Where the epoch is an earlier one as the counter begins again: there another run begins."""
    import numpy

    with numpy.errstate(invalid="ignore"):
        found: Any = epochs[falls] < epochs[falls - 1]
    return found


def _counted(epochs: Any, begins: Any, anew: Any) -> Any:
    """The number of each round within its run; one that begins at a later epoch than the first of all was resumed there."""
    import numpy

    rounds = numpy.arange(len(begins))
    places: Any = numpy.searchsorted(begins, anew)
    for place in places:
        first = max(0, int(epochs[begins[place]] - epochs[0])) if numpy.isfinite(epochs[0]) else 0
        rounds[place:] = first + numpy.arange(len(begins) - place)
    return rounds


def _epochs_rise(epochs: Any, falls: Any) -> bool:
    """Whether there are times at which the counter begins again, and at each the epoch is a later one."""
    import numpy

    if not len(falls):
        return False
    before, after = epochs[falls - 1], epochs[falls]
    return bool(numpy.isfinite(before).all() and numpy.isfinite(after).all() and (after > before).all())


def _epochs_stay(epochs: Any, falls: Any) -> bool:
    """Whether each line tells one and the same epoch though the counter begins again: each time another run begins."""
    import numpy

    told = epochs[numpy.concatenate([falls - 1, falls])]
    return bool(numpy.isfinite(told).all() and (told == told[0]).all())


def _rounds_alike(steps: Any, begins: Any, ends: Any) -> bool:
    """Whether all rounds begin and end where the others do; the first may begin later, the last end earlier."""
    tops, starts = steps[ends[:-1] - 1], steps[begins[1:]]
    if len(begins) <= ROUNDS:
        return False
    top = int(tops.max())
    return bool((top - tops <= ALIKE * top).all() and (starts - int(starts.min()) <= ALIKE * top).all())
