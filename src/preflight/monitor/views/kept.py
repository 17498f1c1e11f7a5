"""What the recorder tells of copies that follow trained weights, and which share of its past one has kept from step to step."""

from __future__ import annotations

from statistics import median
from typing import NamedTuple

from preflight.monitor.window import Window

SLOW, FAST = "kept.slow", "kept.fast"
ROUNDED = 6e-8
"""What rounding a number of 32 bits may make of it, as a share."""
CLEAR = 1000
"""How many times that the sums of a copy and of what it follows must lie apart, so that a share has three digits."""
NONE = 1e-4
"""The share of its past below which a copy keeps none: what was copied is off by rounding, or was taken a moment before."""
ALIKE = 0.02
"""How far shares that are one may lie apart, of the share that is kept or of that which is not, beside rounding."""
_PAIRS = 2


class Look(NamedTuple):
    """The sums of a copy's matrices and of those that they follow, by name, before a step."""

    step: int
    slow: dict[str, float]
    fast: dict[str, float]


def kept_of(window: Window) -> dict[str, Look]:
    """What was told of each copy."""
    found: dict[str, Look] = {}
    for number in window.numbers:
        if number.name in (SLOW, FAST) and number.value is not None:
            word, _, name = number.object.partition("#")
            look = found.setdefault(word, Look(number.s, {}, {}))
            (look.slow if number.name == SLOW else look.fast)[name] = number.value
    return found


def share_kept(before: Look, now: Look) -> float | None:
    """The share of its past that a copy has kept since; None where it is none that all matrices tell alike."""
    told: list[tuple[float, float]] = []  # with how far each may be off
    for name, slow in now.slow.items():
        fast, old = now.fast.get(name), before.slow.get(name)
        if fast is None or old is None:
            continue
        apart, rounded = old - fast, ROUNDED * (abs(old) + abs(fast) + abs(slow))
        if abs(apart) > CLEAR * rounded:
            told.append(((slow - fast) / apart, rounded / abs(apart)))
    if len(told) < _PAIRS:
        return None
    middle = median(share for share, _ in told)
    allowed = ALIKE * min(abs(middle), abs(1 - middle))
    alike = all(abs(share - middle) <= allowed + off for share, off in told)
    return middle if alike else None
