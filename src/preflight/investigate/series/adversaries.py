"""What the losses of two networks that are trained against each other show: values that are no numbers, and that one has won.

Each of them may rise and fall for long while both learn, so that no trend of one alone is told.
"""

from __future__ import annotations

import re
from typing import Any

from preflight.investigate.series.columns import Track
from preflight.investigate.series.words import at_step, number, quote_of
from preflight.vocabulary.incident import SeriesFinding

_GENERATOR = re.compile(r"(?:g|gen|generator)(?:_(?:\w+_)?loss)?|loss_(?:g|gen|generator)")
_DISCRIMINATOR = re.compile(
    r"(?:d|dr|df|disc|discriminator)(?:_(?:\w+_)?loss)?|loss_(?:d|disc|discriminator)(?:_(?:real|fake))?"
)
_FEWEST = 50
_LAST = 0.2
"""The share of the values, from the end, in which one has to have won."""
_RISEN = 5.0
_FALLEN = 100.0
"""So many times as high, and as low, as in the first half: a discriminator that is right every time teaches nothing."""


def adversaries(tracks: list[Track]) -> list[SeriesFinding]:
    """Say of the losses of a generator and its discriminator that they are no numbers at the end, or that the latter has won.

    One track tells it: ranks that reduce their gradients share both networks.
    """
    for track in tracks:
        names = track.names()
        made = [name for name in sorted(names) if _GENERATOR.fullmatch(name)]
        judged = [name for name in sorted(names) if _DISCRIMINATOR.fullmatch(name)]
        if made and judged:
            lost = [one for name in (*made, *judged) if (one := _not_finite(track, name)) is not None]
            won = [one for name in made for other in judged if (one := _won(track, name, other)) is not None]
            if lost or won:
                return (lost or won)[:1]
    return []


def _not_finite(track: Track, name: str) -> SeriesFinding | None:
    """A loss whose last value is no number: the weights that gave it are none either."""
    import numpy

    at, numbers = track.points(name)
    wrong = ~numpy.isfinite(numbers)
    if not len(numbers) or not wrong[-1]:
        return None
    fine: Any = numpy.flatnonzero(~wrong)
    first = int(at[int(fine[-1]) + 1 if len(fine) else 0])
    step, line = track.lines[first].step, track.lines[first]
    return SeriesFinding(
        kind="nonfinite",
        series=name,
        text=f"{name} is {number(line.values[name])} {at_step(step, first)} and since",
        first_step=step,
        false_alarms=0.0,
        values={"count": int(wrong.sum()), "recovered": False},
        quote=quote_of(line),
    )


def _won(track: Track, made: str, judged: str) -> SeriesFinding | None:
    """The loss of a discriminator is next to nothing at the end, and that of its generator many times what it was."""
    import numpy

    at, rising = track.points(made)
    of, falling = track.points(judged)
    if len(rising) < _FEWEST or not numpy.array_equal(at, of):
        return None
    if not (numpy.isfinite(rising).all() and numpy.isfinite(falling).all()):
        return None
    begin = int(len(rising) * (1 - _LAST))
    half = len(rising) // 2
    before, after = float(numpy.median(rising[:half])), float(numpy.median(rising[begin:]))
    held, left = float(numpy.median(falling[:half])), float(numpy.median(falling[begin:]))
    if before <= 0 or held <= 0 or after < _RISEN * before or abs(left) > held / _FALLEN:
        return None
    if float(numpy.quantile(rising[begin:], 0.1)) <= float(numpy.quantile(rising[:half], 0.95)):
        return None
    line = track.lines[int(at[begin])]
    return SeriesFinding(
        kind="divergence",
        series=made,
        text=f"{made} rose from {number(before)} to {number(after)} while {judged} fell from {number(held)} to {number(left)}:"
        " the discriminator has won, and teaches nothing more",
        first_step=line.step,
        last_step=track.lines[int(at[-1])].step,
        false_alarms=0.0,
        values={"before": before, "after": after, "at": begin, "values": len(rising), "lost": True},
        quote=quote_of(line, made),
    )
