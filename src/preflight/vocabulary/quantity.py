"""Quantities: intervals, and how bytes, counts and times are shown to a person."""

from __future__ import annotations

import msgspec

GIB = 1024**3
MIB = 1024**2


class Interval(msgspec.Struct, frozen=True):
    """A value that is not known exactly.

    Attributes:
        low: The value is rarely below this (5 %).
        mid: The best single estimate.
        high: The value is rarely above this (95 %).
    """

    low: float
    mid: float
    high: float

    def scaled(self, factor: float) -> Interval:
        """Return the interval with all three values multiplied by ``factor``."""
        return Interval(self.low * factor, self.mid * factor, self.high * factor)


def format_bytes(value: float) -> str:
    """Format bytes in binary units, with a place behind the point below 100: ``13.2 GiB``, ``512 MiB``."""
    size = abs(value)
    for unit, step in (("TiB", 1024**4), ("GiB", GIB), ("MiB", MIB), ("KiB", 1024)):
        if size >= step:
            number = value / step
            return f"{number:.1f} {unit}" if abs(number) < 100 else f"{number:.0f} {unit}"
    return f"{value:.0f} B"


def format_count(value: float) -> str:
    """Format a count the way model sizes are spoken of: ``124.4 M``, ``6.74 B``."""
    size = abs(value)
    for unit, step in (("T", 1e12), ("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if size >= step:
            number = value / step
            digits = 2 if abs(number) < 10 else 1
            return f"{number:.{digits}f} {unit}"
    return f"{value:g}"


def format_seconds(seconds: float) -> str:
    """Return a time with three significant digits, in the largest of s, ms and µs of which it has one: ``9.75 ms``."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{float(f'{seconds * factor:.3g}'):g} {unit}"
    return f"{float(f'{seconds * 1e6:.3g}'):g} µs"


_LONG = (("years", 365.25 * 86400.0), ("days", 86400.0), ("hours", 3600.0), ("min", 60.0))


def long_unit(seconds: float) -> tuple[str, float] | None:
    """Return the name and the seconds of the unit that people use for a time of two minutes and more, else None."""
    return next(((name, size) for name, size in _LONG if seconds >= 2 * size), None)


def in_unit(seconds: float, name: str, size: float) -> str:
    """Return a time in a unit of ``size`` seconds with three significant digits."""
    number = seconds / size
    return f"{number:,.3g} {name}" if number < 1000 else f"{number:,.0f} {name}"


def format_duration(seconds: float) -> str:
    """Return a time in the unit that people use for it: ``4.66 years``, ``18.3 days``, ``4.2 hours``, ``35 min``, ``40 s``."""
    unit = long_unit(seconds)
    return in_unit(seconds, *unit) if unit else format_seconds(seconds)


def format_share(share: float, digits: int = 0) -> str:
    """Return a share or a probability in hundredths, with so many places behind the point: ``67 %``."""
    return f"{100 * share:.{digits}f} %"


def format_parameters(parameters: float) -> str:
    """Return a number of parameters as people say it: 7.24B, 4.9M."""
    return f"{parameters / 1e9:.3g}B" if parameters >= 1e9 else f"{parameters / 1e6:.3g}M"
