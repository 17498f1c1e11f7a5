"""Reads the time at the head of a line, in the forms that programs, kernels and schedulers write it."""

from __future__ import annotations

import re
from typing import NamedTuple

_MONTHS = {
    name: number
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), 1
    )
}
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_CLOCK = r"(\d\d):(\d\d):(\d\d)(?:[.,:](?!(?<=,)\d{1,2},)(\d{1,9}))?"
_ZONE = r"(?:\s?(Z\b|UTC\b|GMT\b|[+-]\d\d:?\d\d\b))?"

_FORMS = (
    # 2024-01-31T12:00:00.123456789Z, 2024/01/31 12:00:00, 2024-01-31 12:00:00,123, 2024-01-31 - 12:00:00, 2024-01-31_12:00:00
    ("iso", rf"(\d{{4}})[-/.](\d\d)[-/.](\d\d)(?:[T_ :]|\s-\s)\s?{_CLOCK}{_ZONE}"),
    # E0131 12:00:00.123456 and, from the C++ side of torch, E131 12:00:00.123456789: no zero before the month
    ("glog", rf"[IWEFDVC](\d{{1,2}})(\d\d) {_CLOCK}"),
    # Wed Jan 31 12:00:00 2024, Wed Jan 31 12:00:00 UTC 2024, Wed Jan 31 12:00:00 AM UTC 2024
    (
        "ctime",
        rf"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? ({_MONTH})\s+(\d{{1,2}}) {_CLOCK}(?: ([AP]M))?(?: ([A-Z]{{3,4}}))? (\d{{4}})",
    ),
    # Jan 31 12:00:00, Jan 31, 2024 12:00:00
    ("syslog", rf"({_MONTH})\s+(\d{{1,2}})(?:,? (\d{{4}}),?)? {_CLOCK}"),
    # 31/Jan/2024:12:00:00 +0000, 31 Jan 2024 12:00:00
    ("day", rf"(\d{{1,2}})[ /-]({_MONTH})[ /-](\d{{4}})[: ]{_CLOCK}{_ZONE}"),
    # 01/31/2024 12:00:00
    ("american", rf"(\d\d)/(\d\d)/(\d{{4}}),? {_CLOCK}(?: ([AP]M))?"),
    # 01/31 12:00:00 and 01-31 12:00:00
    ("short", rf"(\d\d)[/-](\d\d),? {_CLOCK}"),
    # 24/01/31 12:00:00
    ("spark", rf"(\d\d)/(\d\d)/(\d\d) {_CLOCK}"),
    # 20240131T120000Z, 20240131-12:00:00, 20240131 12:00:00, 20240131_120000
    ("compact", r"(20\d\d)(\d\d)(\d\d)[-T _](\d\d):?(\d\d):?(\d\d)(?:[.,](?!(?<=,)\d{1,2},)(\d{1,9}))?(Z)?\b"),
    # 1706702400.123, 1706702400123
    ("epoch", r"(1[0-9]{9})(?:\.(\d{1,9})|(\d{3}))?(?![\w.])"),
    ("clock", rf"{_CLOCK}(?!\d)"),
)
_ANY = re.compile("|".join(f"(?P<{name}>{form})" for name, form in _FORMS))
_GROUP = {name: _ANY.groupindex[name] for name, _ in _FORMS}
_BOOT = re.compile(r"\[\s*(\d{1,9}\.\d{3,9})\]")
_DAY = 86400.0


class Stamp(NamedTuple):
    """A time as a line bears it.

    Attributes:
        seconds: Since 1970; of a form without year, since the beginning of an unknown year; without date, since midnight;
            of the kernel, since it booted.
        form: Its form: ``iso``, ``glog``, ``clock``, ``boot`` ...
        missing: What it does not tell: ``year``, ``date``, ``boot`` (when that was), or nothing.
        zoned: It tells its zone, and ``seconds`` are in UTC.
        end: The character after it.
        exact: Half of its smallest unit.
        start: The character at which it begins.
    """

    seconds: float
    form: str
    missing: str
    zoned: bool
    end: int
    exact: float
    start: int = 0


def stamp_at(text: str, place: int = 0) -> Stamp | None:
    """Return the time that begins at ``place``, or None."""
    if text[place : place + 1] == "[":
        boot = _BOOT.match(text, place)
        if boot:
            return Stamp(float(boot[1]), "boot", "boot", False, boot.end(), 0.5e-6)
    match = _ANY.match(text, place)
    if match is None:
        return None
    form = match.lastgroup or ""
    first = _GROUP[form]
    try:
        return _READ[form](form, match.groups()[first:], match.end())._replace(start=place)
    except (ValueError, OverflowError):
        return None


_MAY_BE = re.compile(r"[\[(\"]?(?:\d{8}|" + "|".join(form for _, form in _FORMS) + ")")


def may_be_time(text: str, place: int) -> bool:
    """Whether other digits would make what begins at ``place`` a time: 2024-13-01 12:00:00 is none."""
    return _MAY_BE.match(text, place) is not None


_minutes: dict[str, float] = {}
"""When each minute began, by the sixteen characters that tell it."""
_MOST_MINUTES = 5000


def iso_at(text: str, start: int, end: int) -> Stamp | None:
    """Return the time that stands at a known place, as ``2024-01-31 12:00:00,123``; None where it is another form."""
    minute = text[start : start + 16]
    began = _minutes.get(minute)
    if began is None:
        stamp = stamp_at(text, start)
        if stamp is None or stamp.form != "iso" or stamp.end != end or stamp.zoned:
            return None
        second = text[start + 17 : start + 19]
        if minute[13:14] == ":" and second.isdecimal():
            if len(_minutes) > _MOST_MINUTES:
                _minutes.clear()
            _minutes[minute] = (stamp.seconds - int(second)) // 60.0 * 60.0
        return stamp
    if text[start + 16 : start + 17] != ":":
        return None
    part = text[start + 20 : end]
    try:
        seconds = int(text[start + 17 : start + 19])
        scale = 10 ** len(part)
        if seconds > 60 or (part and not part.isdecimal()):
            return None
        return Stamp(began + seconds + (int(part) / scale if part else 0), "iso", "", False, end, 0.5 / scale, start)
    except ValueError:
        return None


def seconds_of(text: str) -> float | None:
    """Return the time that a text of the form of ``iso_at`` is; None where its minute was not read yet, or it is none."""
    began = _minutes.get(text[:16])
    if began is None or text[16:17] != ":":
        return None
    second, part = text[17:19], text[20:]
    if not second.isdecimal() or (part and not part.isdecimal()):
        return None
    seconds = int(second)
    return None if seconds > 60 else began + seconds + (int(part) / 10 ** len(part) if part else 0)


def minute_at(text: str, start: int) -> float | None:
    """Return when the minute began that stands at a place; None where ``iso_at`` has not read it yet."""
    return _minutes.get(text[start : start + 16])


def days(year: int, month: int, day: int) -> int:
    """Return the days from 1970-01-01 to a date of the Gregorian calendar.

    Raises:
        ValueError: There is no such date.
    """
    if not (1 <= month <= 12 and 1 <= day <= 31):
        raise ValueError("no such date")
    year -= month <= 2
    of_era = year % 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return (year // 400) * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


def _clock(hour: str, minute: str, second: str, part: str | None) -> tuple[float, float]:
    if int(hour) > 23 or int(minute) > 59 or int(second) > 60:
        raise ValueError("no such time")
    seconds = int(hour) * 3600.0 + int(minute) * 60 + int(second)
    if not part:
        return seconds, 0.5
    return seconds + int(part) / 10 ** len(part), 0.5 / 10 ** len(part)


def _offset(zone: str | None) -> float:
    if not zone or zone[0] not in "+-":
        return 0.0
    sign = -1 if zone[0] == "-" else 1
    return sign * (int(zone[1:3]) * 3600.0 + int(zone[-2:]) * 60)


def _afternoon(seconds: float, half: str | None) -> float:
    if half is None:
        return seconds
    return seconds % (_DAY / 2) + (_DAY / 2 if half == "PM" else 0)


def _iso(form: str, g: tuple[str | None, ...], end: int) -> Stamp:
    year, month, day, h, m, s, part, zone = (text or "" for text in g[:8])
    clock, exact = _clock(h, m, s, part)
    return Stamp(days(int(year), int(month), int(day)) * _DAY + clock - _offset(zone), form, "", bool(zone), end, exact)


def _glog(form: str, g: tuple[str | None, ...], end: int) -> Stamp:
    month, day, h, m, s, part = (text or "" for text in g[:6])
    clock, exact = _clock(h, m, s, part)
    return Stamp(days(1972, int(month), int(day)) * _DAY + clock, form, "year", False, end, exact)


def _ctime(form: str, g: tuple[str | None, ...], end: int) -> Stamp:
    month, day, h, m, s, part, half, zone, year = g[:9]
    clock, exact = _clock(h or "", m or "", s or "", part)
    whole = days(int(year or 0), _MONTHS[(month or "").lower()], int(day or 0)) * _DAY
    return Stamp(whole + _afternoon(clock, half), form, "", zone in ("UTC", "GMT"), end, exact)


def _syslog(form: str, g: tuple[str | None, ...], end: int) -> Stamp:
    month, day, year, h, m, s, part = g[:7]
    clock, exact = _clock(h or "", m or "", s or "", part)
    whole = days(int(year or 1972), _MONTHS[(month or "").lower()], int(day or 0)) * _DAY
    return Stamp(whole + clock, form, "" if year else "year", False, end, exact)


def _day(form: str, g: tuple[str | None, ...], end: int) -> Stamp:
    day, month, year, h, m, s, part, zone = g[:8]
    clock, exact = _clock(h or "", m or "", s or "", part)
    whole = days(int(year or 0), _MONTHS[(month or "").lower()], int(day or 0)) * _DAY
    return Stamp(whole + clock - _offset(zone), form, "", bool(zone), end, exact)


def _american(form: str, g: tuple[str | None, ...], end: int) -> Stamp:
    month, day, year, h, m, s, part, half = g[:8]
    if int(month or 0) > 12:  # 31/01/2024 is written so elsewhere
        month, day = day, month
    clock, exact = _clock(h or "", m or "", s or "", part)
    whole = days(int(year or 0), int(month or 0), int(day or 0)) * _DAY
    return Stamp(whole + _afternoon(clock, half), form, "", False, end, exact)


def _short(form: str, g: tuple[str | None, ...], end: int) -> Stamp:
    return _glog(form, g, end)


def _spark(form: str, g: tuple[str | None, ...], end: int) -> Stamp:
    return _iso(form, ("20" + (g[0] or ""), *g[1:7], None), end)


def _compact(form: str, g: tuple[str | None, ...], end: int) -> Stamp:
    return _iso(form, g, end)


def _epoch(form: str, g: tuple[str | None, ...], end: int) -> Stamp:
    part = g[1] or g[2]
    exact = 0.5 / 10 ** len(part) if part else 0.5
    return Stamp(int(g[0] or 0) + (int(part) / 10 ** len(part) if part else 0.0), form, "", True, end, exact)


def _only_clock(form: str, g: tuple[str | None, ...], end: int) -> Stamp:
    clock, exact = _clock(g[0] or "", g[1] or "", g[2] or "", g[3])
    return Stamp(clock, form, "date", False, end, exact)


_READ = {
    "iso": _iso,
    "glog": _glog,
    "ctime": _ctime,
    "syslog": _syslog,
    "day": _day,
    "american": _american,
    "short": _short,
    "spark": _spark,
    "compact": _compact,
    "epoch": _epoch,
    "clock": _only_clock,
}
