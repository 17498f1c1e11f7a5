"""What is known of the values of variables in two states, and whether they are others."""

from __future__ import annotations

import math

from preflight.monitor.window import State

CLOSE = 1e-6
"""Norms that are nearer than this share of the larger one are the same."""
Value = tuple[float | None, int | None]
"""A norm and a fingerprint, as far as each was taken."""


def total_norm(state: State) -> float:
    """Return the norm over all variables of a state."""
    known = state.norm if state.sound or None not in state.norm else [norm for norm in state.norm if norm is not None]
    total = math.hypot(*known)
    # What is no number stays so, beside what is infinite, too.
    return total if math.isfinite(total) or not any(map(math.isnan, known)) else math.nan  # type: ignore[arg-type]


def values_of(state: State) -> dict[int, Value]:
    """Return the norm and the fingerprint of each variable of a state."""
    bits = state.bits or [None] * len(state.ids)
    return dict(zip(state.ids, zip(state.norm, bits, strict=True), strict=True))


def differ(one: Value, other: Value) -> bool:
    """Return whether two values are others: by their fingerprints, by their norms where one of these is missing."""
    if one[1] is not None and other[1] is not None:
        return one[1] != other[1]
    if one[0] is None or other[0] is None or one[0] != one[0] or other[0] != other[0]:
        return False
    return abs(one[0] - other[0]) > CLOSE * max(abs(one[0]), abs(other[0]))
