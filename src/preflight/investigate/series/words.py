"""Numbers and places in the sentences of findings."""

from __future__ import annotations

import math

from preflight.vocabulary.incident import Quote
from preflight.vocabulary.log import StepLine


def number(value: float, signed: bool = False) -> str:
    """A number with four digits."""
    if not math.isfinite(value):
        return str(value)
    return f"{value:+.4g}" if signed else f"{value:.4g}"


def percent(share: float) -> str:
    """A change in per cent, with its sign."""
    return f"{100 * share:+.0f} %" if abs(share) >= 0.1 else f"{100 * share:+.1f} %"


_NUMBERS = ("", "", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
# From this on a ratio is read more easily than what it is above one in per cent.
TIMES = 2.0


def times(ratio: float) -> str:
    """A ratio in words: ``twice``, ``2.5 times``, ``ten times``, ``37 times``."""
    whole = round(ratio)
    if ratio < 10 and abs(ratio - whole) > 0.15:
        return f"{ratio:.1f} times"
    if whole < len(_NUMBERS):
        return "twice" if whole == 2 else f"{_NUMBERS[whole]} times"
    return f"{whole:,} times"


def longer_than(ratio: float) -> str:
    """How a time compares with another one: ``12 % longer than``, ``ten times as long as``."""
    return f"{times(ratio)} as long as" if ratio >= TIMES else f"{percent(ratio - 1)[1:]} longer than"


def grew(ratio: float) -> str:
    """By how much something grew: ``rose by 12 %``, ``is ten times what it was``."""
    return f"is {times(ratio)} what it was" if ratio >= TIMES else f"rose by {percent(ratio - 1)[1:]}"


def at_step(step: int | None, at: int) -> str:
    """Where it was: the step, or else the value, counted from one."""
    return f"at step {step:,}" if step is not None else f"at value {at + 1:,}"


def quote_of(line: StepLine, name: str | None = None) -> Quote | None:
    """The place of a line, with what it says; its path is put in by who knows the files, the file's index stands for it here."""
    values = {name: line.values[name]} if name in line.values else dict(list(line.values.items())[:4])
    told = [f"step {line.step}"] if line.step is not None else []
    told += [f"{key} {number(value)}" for key, value in values.items()]
    return Quote(path=str(line.file), line=line.line, text=", ".join(told))
