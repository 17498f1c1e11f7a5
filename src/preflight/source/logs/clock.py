"""Turns the times of one file into seconds since 1970: years and days that a line leaves out come from its neighbours."""

from __future__ import annotations

import re

from preflight.source.logs.times import Stamp, days

_DAY = 86400.0
_WHOLE = re.compile(rb"^.{0,40}?(?:\b|\x1b\[[\d;]*m)((?:19|20)\d\d)[-/](\d\d)[-/](\d\d)[ T_]\d\d:\d\d", re.MULTILINE)
_LEAP = 1972
"""The year in which times without one are read; a leap year, so that 29 February is a date."""


class Clock:
    """The times of one file.

    Attributes:
        first: The earliest of the times resolved, None before there is one.
        last: The latest.
        year_guessed: A year was taken from the date of the file itself, and from nothing that it says.
        undated: Some times were resolved without any date: they count from an unknown day.
    """

    def __init__(self, modified: float | None = None) -> None:
        """Start; ``modified`` is when the file was written last, where that is known."""
        self._modified = modified
        self._anchor: float | None = None
        self.first: float | None = None
        self.last: float | None = None
        self.undated = False
        self.year_guessed = False

    def near(self, head: bytes) -> None:
        """Take the date of the first line of a log that has a whole one: lines before it are of that year."""
        match = _WHOLE.search(head)
        if match is not None and self._anchor is None and 1 <= int(match[2]) <= 12 and 1 <= int(match[3]) <= 31:
            self._anchor = days(int(match[1]), int(match[2]), int(match[3])) * _DAY

    def at(self, stamp: Stamp) -> float:
        """Return the time of a stamp."""
        if not stamp.missing:
            return self.at_seconds(stamp.seconds)
        if stamp.missing == "year":
            seconds = self._anchor = self._with_year(stamp.seconds)
        elif stamp.missing == "date":
            seconds = self._with_date(stamp.seconds)
            if self._anchor is not None:
                self._anchor = seconds
        else:
            seconds = stamp.seconds
            self.undated = True
            return seconds
        self._pass(seconds)
        return seconds

    def at_seconds(self, seconds: float) -> float:
        """Return the time of a stamp that tells its date and its year."""
        self._anchor = seconds
        self._pass(seconds)
        return seconds

    def _pass(self, seconds: float) -> None:
        if self.first is None or self.last is None:
            self.first = self.last = seconds
        elif seconds > self.last:
            self.last = seconds
        elif seconds < self.first:
            self.first = seconds

    def _with_year(self, seconds: float) -> float:
        """A log is written before its file was written last, and close to its other lines."""
        near = self._anchor if self._anchor is not None else self._modified
        if near is None:
            self.undated = True
            return seconds
        into = seconds - days(_LEAP, 1, 1) * _DAY
        year = 1970 + int(near // (365.2425 * _DAY))
        found = [_in_year(other, into) for other in (year - 1, year, year + 1)]
        if self._anchor is None:  # nothing but the file's own date: not after it, but for a zone
            found = [time for time in found if time <= near + _DAY] or found
            self.year_guessed = True
        return min(found, key=lambda time: abs(time - near))

    def _with_date(self, seconds: float) -> float:
        near = self._anchor
        if near is None and self._modified is not None:
            day = self._modified // _DAY * _DAY
            return day + seconds if day + seconds <= self._modified + _DAY / 2 else day + seconds - _DAY
        if near is None:
            self.undated = True
            return seconds
        day = near // _DAY * _DAY
        return min((day + seconds + shift for shift in (-_DAY, 0.0, _DAY)), key=lambda time: abs(time - near))


def _in_year(year: int, into: float) -> float:
    """Return the time ``into`` a leap year, in a year that may be none: its days after February come a day earlier."""
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not leap and into >= 60 * _DAY:
        into -= _DAY
    return days(year, 1, 1) * _DAY + into
