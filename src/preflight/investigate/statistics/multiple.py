"""Many tests at once: Holm for the chance of one wrong alarm, Benjamini and Hochberg for the share of wrong ones."""

from __future__ import annotations

from collections.abc import Sequence


def holm(chances: Sequence[float]) -> list[float]:
    """The probabilities, raised so that the chance of a single wrong alarm among all of them stays at the level."""
    found = [1.0] * len(chances)
    highest = 0.0
    for place, at in enumerate(sorted(range(len(chances)), key=lambda i: chances[i])):
        highest = max(highest, min(1.0, chances[at] * (len(chances) - place)))
        found[at] = highest
    return found


def benjamini_hochberg(chances: Sequence[float]) -> list[float]:
    """The probabilities, raised so that the expected share of wrong alarms among the alarms stays at the level."""
    found = [1.0] * len(chances)
    lowest = 1.0
    for place, at in reversed(list(enumerate(sorted(range(len(chances)), key=lambda i: chances[i]), 1))):
        lowest = min(lowest, chances[at] * len(chances) / place)
        found[at] = lowest
    return found
