"""Times as programs, kernels and schedulers write them."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.source.logs.clock import Clock
from preflight.source.logs.times import days, stamp_at

NOON = datetime.datetime(2024, 1, 31, 12, 0, tzinfo=datetime.timezone.utc).timestamp()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-01-31T12:00:00Z x", NOON),
        ("2024-01-31T13:00:00+01:00 x", NOON),
        ("2024-01-31 12:00:00,250 INFO", NOON + 0.25),
        ("2024/01/31 12:00:00.5 x", NOON + 0.5),
        ("2024-01-31 - 12:00:00 x", NOON),
        ("2024-01-31_12:00:00", NOON),
        ("Wed Jan 31 12:00:00 2024", NOON),
        ("Wed Jan 31 12:00:00 UTC 2024", NOON),
        ("Wed Jan 31 12:00:00 PM UTC 2024", NOON),
        ("Jan 31, 2024 12:00:00 x", NOON),
        ("31/Jan/2024:13:00:00 +0100", NOON),
        ("01/31/2024 12:00:00 - INFO", NOON),
        ("31/01/2024 12:00:00 - INFO", NOON),
        ("24/01/31 12:00:00 INFO", NOON),
        ("20240131-12:00:00 x", NOON),
        ("20240131T120000Z", NOON),
        ("20240131_120000 x", NOON),
        ("1706702400.25 x", NOON + 0.25),
        ("1706702400250 x", NOON + 0.25),
    ],
)
def test_a_full_time_is_read(text: str, expected: float) -> None:
    stamp = stamp_at(text)
    assert stamp is not None
    assert stamp.missing == ""
    assert stamp.seconds == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("E0131 12:00:00.123456 1234 file.py:1]", "year"),
        ("E131 12:00:00.123456789 file.cpp:1]", "year"),
        ("Jan 31 12:00:00 node kernel: x", "year"),
        ("01/31 12:00:00 d2.utils", "year"),
        ("12:00:00 x", "date"),
        ("[43200.000000] x", "boot"),
    ],
)
def test_what_a_time_leaves_out_is_said(text: str, missing: str) -> None:
    stamp = stamp_at(text)
    assert stamp is not None
    assert stamp.missing == missing
    assert stamp.seconds % 86400 == pytest.approx(43200, abs=1)


@pytest.mark.parametrize(
    "text", ["", "hello", "2024-13-31 12:00:00", "2024-01-31 25:00:00", "12:61:00", "1.5", "123456", "Janet", "[12]"]
)
def test_what_is_no_time_is_none(text: str) -> None:
    assert stamp_at(text) is None


@settings(deadline=None)
@given(st.datetimes(datetime.datetime(1970, 1, 1), datetime.datetime(2200, 1, 1)))
def test_any_time_is_read_back(when: datetime.datetime) -> None:
    expected = when.replace(tzinfo=datetime.timezone.utc).timestamp()
    for text in (when.isoformat(), when.strftime("%Y-%m-%d %H:%M:%S") + f",{when.microsecond:06d}"):
        stamp = stamp_at(text)
        assert stamp is not None
        assert stamp.seconds == pytest.approx(expected, abs=1e-5)


@settings(deadline=None)
@given(st.dates(datetime.date(1600, 1, 1), datetime.date(2600, 1, 1)))
def test_days_are_those_of_the_calendar(date: datetime.date) -> None:
    assert days(date.year, date.month, date.day) == (date - datetime.date(1970, 1, 1)).days


@settings(deadline=None)
@given(st.text(max_size=40), st.integers(0, 40))
def test_no_text_breaks_it(text: str, place: int) -> None:
    stamp_at(text, place)


def test_the_year_comes_from_when_the_file_was_written() -> None:
    stamp = stamp_at("E0131 12:00:00.5 1 x.py:1]")
    assert stamp is not None
    assert Clock(modified=NOON + 3600).at(stamp) == pytest.approx(NOON + 0.5)
    # written on 2 January: a line of December is last year's
    december = stamp_at("Dec 31 23:00:00 x")
    assert december is not None
    told = Clock(modified=days(2025, 1, 2) * 86400.0).at(december)
    assert told == days(2024, 12, 31) * 86400.0 + 23 * 3600


def test_a_clock_without_date_follows_its_neighbours_over_midnight() -> None:
    clock = Clock()
    dated, late, early = stamp_at("2024-01-31 23:59:00 x"), stamp_at("23:59:59 x"), stamp_at("00:00:01 x")
    assert dated is not None
    assert late is not None
    assert early is not None
    day = days(2024, 1, 31) * 86400.0
    assert [clock.at(one) - day for one in (dated, late, early)] == [86340.0, 86399.0, 86401.0]
    assert not clock.undated


def test_without_any_date_times_count_from_an_unknown_day() -> None:
    stamp = stamp_at("12:00:00 x")
    assert stamp is not None
    clock = Clock()
    assert clock.at(stamp) == 43200.0
    assert clock.undated


def test_29_february_without_year_is_a_date() -> None:
    stamp = stamp_at("E0229 12:00:00.5 1 x.py:1]")
    assert stamp is not None
    assert Clock(modified=days(2024, 3, 2) * 86400.0).at(stamp) == days(2024, 2, 29) * 86400.0 + 43200.5


@pytest.mark.parametrize("coloured", [b"[2025", b"[\x1b[34m2025"])
def test_lines_without_a_year_are_of_the_year_of_the_first_line_that_has_one(coloured: bytes) -> None:
    stamp = stamp_at("W0102 15:45:34.866823429 ")
    assert stamp is not None
    clock = Clock(modified=days(2026, 11, 21) * 86400.0)
    clock.near(b"starting\n" + coloured + b"-01-02 15:45:19,529] [INFO] first\n")
    assert clock.at(stamp) == pytest.approx(days(2025, 1, 2) * 86400.0 + 15 * 3600 + 45 * 60 + 34.866823)
    assert not clock.year_guessed
