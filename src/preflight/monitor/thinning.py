"""Fewer points of a curve that show the same: what stands out must not vanish.

Of so many points in a row the first, the lowest, the highest and the first that is no number are kept. A peak of one
step is then in a picture of a million; and since there are as many points that are too low as too high, the middle of
what is kept is near the middle of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby


def thinned(numbers: Sequence[int], values: Sequence[float | None], width: int) -> list[int]:
    """Return the places of the points to keep, ascending.

    What is left after one call can be thinned again with a larger width that the first divides: the extremes of a span
    are among those of its parts.

    Args:
        numbers: How many points came before each, ascending.
        values: The values; None where a number is not finite.
        width: Points of a span.
    """
    kept: list[int] = []
    for _, span in groupby(range(len(numbers)), key=lambda at: numbers[at] // width):
        places = list(span)
        finite = [(value, at) for at in places if (value := values[at]) is not None]
        gap = [at for at in places if values[at] is None][:1]
        ends = [min(finite)[1], max(finite)[1]] if finite else []
        kept += sorted({places[0], *gap, *ends})
    return kept
