"""Which differences between what works and what fails make it fail: delta debugging."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from preflight.investigate.bisect.outcome import Budget, Outcome
from preflight.investigate.bisect.repeated import Repeated


class Minimal(msgspec.Struct, frozen=True, kw_only=True):
    """The smallest set of differences that was found to fail.

    Attributes:
        differences: None of them can be left out. tests: Runs.
        confirmed: That it was seen that without any one of them it works.
        untold: Differences without which it could not be judged.
        reason: Why there is no answer. trail: What was run.
    """

    differences: tuple[Any, ...] = ()
    tests: int = 0
    confirmed: bool = False
    untold: tuple[Any, ...] = ()
    reason: str | None = None
    trail: tuple[tuple[Any, Outcome], ...] = ()


def minimise(differences: Sequence[Any], repeated: Repeated) -> Minimal:
    """Find a smallest set of differences that fails: none can be left out of it.

    All of them together are run first, then none.
    """
    every = tuple(differences)
    try:
        if not every:
            return Minimal(reason="there is no difference")
        if (whole := repeated.fails(every)) is not True:
            return _without(
                repeated,
                "with all differences it works" if whole is False else "with all differences it could not be judged",
            )
        if (bare := repeated.fails(())) is not False:
            return _without(
                repeated,
                "without any difference it fails too" if bare else "without any difference it could not be judged",
            )
        left = _reduced(every, repeated)
        untold = tuple(one for one in left if repeated.fails(tuple(d for d in left if d != one)) is None)
        return Minimal(
            differences=left,
            tests=len(repeated.trail),
            confirmed=not untold,
            untold=untold,
            trail=tuple(repeated.trail),
        )
    except Budget as spent:
        return _without(repeated, str(spent))


def _reduced(every: tuple[Any, ...], repeated: Repeated) -> tuple[Any, ...]:
    """Try parts, then what is left without a part, in ever finer parts."""
    left, parts = every, 2
    while len(left) > 1:
        pieces = _split(left, parts)
        smaller = next((piece for piece in pieces if repeated.fails(piece)), None)
        if smaller is not None:
            left, parts = smaller, 2
            continue
        rest = (
            next((r for piece in pieces if repeated.fails(r := tuple(d for d in left if d not in piece))), None)
            if parts > 2
            else None
        )
        if rest is not None:
            left, parts = rest, max(parts - 1, 2)
        elif parts < len(left):
            parts = min(len(left), 2 * parts)
        else:
            break
    return left


def _split(items: tuple[Any, ...], parts: int) -> list[tuple[Any, ...]]:
    """Divide into nearly equal parts."""
    size, more = divmod(len(items), parts)
    pieces, at = [], 0
    for number in range(parts):
        step = size + (number < more)
        pieces.append(items[at : at + step])
        at += step
    return [piece for piece in pieces if piece]


def _without(repeated: Repeated, reason: str) -> Minimal:
    return Minimal(tests=len(repeated.trail), reason=reason, trail=tuple(repeated.trail))


__all__ = ["Minimal", "minimise"]
