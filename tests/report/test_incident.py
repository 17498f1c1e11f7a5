"""An incident in HTML and Markdown: everything is said, nothing of a log becomes part of the page."""

from __future__ import annotations

import re

import msgspec
import pytest

from preflight.report.parts.alarm_text import ranks
from preflight.report.parts.incident_words import (
    clock_time,
    culprit_in_words,
    moment_time,
    percent,
    quote_line,
    several_days,
)
from preflight.report.render import render
from preflight.vocabulary.incident import Activity, Clock, Culprit, Incident, Moment, Quote
from preflight.vocabulary.report import Report

from .incidents import incident, report

NASTY = "</td><script>alert(1)</script> | `x` \x1b[31m ‮"


@pytest.mark.parametrize("format", ["html", "markdown"])
def test_everything_is_said(format: str) -> None:
    text = render(report(), format)
    for said in (
        "rank 5", "node1", "96 %", "oom (looks like network)", "Out of memory: Killed process 4242", "dmesg.txt:88",
        "loader workers hold copies of the data set", "Use fewer loader workers", "start again from step 1800",
        "no log tells of a limit or an alarm", "gradient overflow", "no Xid on any node", "1.4 times as long",
        "dataloader-workers-hold-copies", "12.4", "+2.410 s", "2026-05-28 20:26:40.000 ± 1.5 s",
    ):  # fmt: skip
        assert said.replace("_", "\\_") in text or said in text, said


@pytest.mark.parametrize("format", ["html", "markdown"])
def test_what_a_log_says_does_not_become_part_of_the_page(format: str) -> None:
    nasty = msgspec.structs.replace(
        incident(),
        headline=NASTY,
        timeline=(Moment(text=NASTY, role="root", rank=1, time=5.0, quote=Quote(path=NASTY, line=1, text=NASTY)),),
    )
    text = render(msgspec.structs.replace(report(), incident=nasty), format)
    outside = re.sub(r"(`+)[^`](?:.*?[^`])?\1(?!`)", "", text) if format == "markdown" else text
    assert "<script>alert" not in outside
    assert all(line.count("|") - line.count("\\|") in (3, 4, 5, 6) for line in text.splitlines() if line[:1] == "|")
    assert "\x1b" not in text
    assert "‮" not in text


@pytest.mark.parametrize("width", [80, 120])
def test_a_long_path_leaves_a_line_of_what_was_said(width: int) -> None:
    said = "RuntimeError: " + "x" * 40 + " end of the first line of it"
    quote = Quote(path="/lustre/projects/" + "deep/" * 30 + "stderr.log", line=31, text=said)
    assert len(said) > width or quote_line(quote, width).endswith(said)
    assert len(quote_line(quote, width).partition(": ")[2]) >= min(len(said), width)


def test_a_rank_that_falls_silent_is_seen_in_the_map() -> None:
    page = render(report(), "html")
    assert "Who spoke when" in page
    assert "rank 4, 2026-05-28 20:35:40.000: 1" in page  # the last of 64 spans of ten seconds, from 90 s before
    assert "rank 5, 2026-05-28 20:35:40.000" not in page
    assert page.count("accused") == 3  # its style, and one rank, in the timeline and in the map


def _bare() -> Report:
    bare = Incident(
        state="ended", onset=None, scope=None, category="none", root_category=None, symptom_category=None, signature=None,
        confidence=0.97, headline="the training ended as it should", culprit=Culprit(reason="nothing went wrong"),
    )  # fmt: skip
    return msgspec.structs.replace(report(), incident=bare, verdict="GO")


def test_an_incident_of_which_little_is_known_has_no_empty_parts() -> None:
    page = render(_bare(), "html")
    assert "nobody is named: nothing went wrong" in page
    for absent in ("Timeline", "Who spoke when", "Five whys", "What to do", "Clocks", "What it cost"):
        assert f">{absent}<" not in page
    assert "None" not in render(_bare(), "markdown")


@pytest.mark.parametrize("format", ["text", "markdown", "html"])
def test_nobody_else_is_suspected_of_what_one_alone_is(format: str) -> None:
    whole = incident()
    alone = msgspec.structs.replace(whole.culprit, confidence=0.87, suspects=whole.culprit.suspects[:1])
    for culprit, told in ((whole.culprit, True), (alone, False)):
        text = render(
            msgspec.structs.replace(report(), incident=msgspec.structs.replace(whole, culprit=culprit)), format
        )
        words = {"text": "also considered", "markdown": "# Suspects", "html": ">Suspect<"}
        assert (words[format] in text) is told


def test_many_ranks_are_cut_and_the_culprit_stays() -> None:
    activity = Activity(first=0, width=1, rows=dict.fromkeys(range(300), (1, 1)))
    many = msgspec.structs.replace(incident(), activity=activity, culprit=Culprit(ranks=(299,), confidence=0.9))
    page = render(msgspec.structs.replace(report(), incident=many), "html")
    assert "236 ranks are not shown" in page
    assert ">rank 299<" in page


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((), ""),
        ((3,), "rank 3"),
        ((0, 2), "ranks 0, 2"),
        ((0, 1, 2, 3), "ranks 0 to 3"),
        (tuple(range(0, 40, 2)), "ranks 0, 2, 4, 6, 8, 10, 12 and 13 more"),
    ],
)
def test_ranks_are_named_as_people_name_them(numbers: tuple[int, ...], words: str) -> None:
    assert ranks(numbers) == words


def test_no_probability_claims_certainty() -> None:
    assert percent(1.0) == "over 99 %"
    assert percent(0.0) == "under 1 %"
    assert percent(0.505) == "50 %"
    assert culprit_in_words(Culprit(reason="all ranks say the same")) == "nobody is named: all ranks say the same"


def test_times_without_a_date_are_told_from_the_start() -> None:
    assert clock_time(12.25) == "+12.2 s"
    assert clock_time(1_780_000_000.5) == "2026-05-28 20:26:40.500"
    assert clock_time(None) == ""


def test_every_rank_of_a_moment_has_its_mark_and_of_many_lanes_the_telling_ones_stay() -> None:
    both = Moment(text="both", role="progress", ranks=(0, 1), time=5.0)
    many = tuple(Moment(text="waits", role="cascade", rank=rank, time=6.0) for rank in range(200))
    cause = Moment(text="fell off the bus", role="root", rank=199, time=5.5)
    page = render(
        msgspec.structs.replace(report(), incident=msgspec.structs.replace(incident(), timeline=(both, cause))), "html"
    )
    assert page.count('<circle class="role-progress"') == 2
    page = render(
        msgspec.structs.replace(report(), incident=msgspec.structs.replace(incident(), timeline=(cause, *many))), "html"
    )
    assert page.count('<circle class="role-cascade"') == 64
    assert page.count('<circle class="role-root"') == 1


def test_who_spoke_is_not_drawn_in_the_colour_of_errors() -> None:
    page = render(report(), "html")
    assert '<figure class="calm"><p class="legend">Lines that mean something' in page
    assert ".calm .heat { fill: var(--accent)" in page


def test_a_time_that_is_known_within_minutes_is_told_in_plain_figures() -> None:
    moment = Moment(text="it failed", role="root", time=1_780_000_000.0, time_error=147.3)
    assert moment_time(moment).endswith("± 147 s")
    assert moment_time(moment, day=False).endswith("±147")
    assert moment_time(msgspec.structs.replace(moment, time_error=1.5), day=False).endswith("±1.5")
    assert moment_time(msgspec.structs.replace(moment, time_error=66_127.0), day=False).endswith("±18.4 hours")


def test_moments_of_several_days_bear_their_day() -> None:
    moments = tuple(
        Moment(text=f"it failed {number}", role="root", time=1_780_000_000.0 + 86_400.0 * number) for number in range(2)
    )
    text = render(
        msgspec.structs.replace(report(), incident=msgspec.structs.replace(incident(), timeline=moments)), "text"
    )
    assert "05-28 20:26:40" in text
    assert "05-29 20:26:40" in text
    same_day = tuple(msgspec.structs.replace(one, time=1_780_000_000.0 + at) for at, one in enumerate(moments))
    assert not several_days(same_day)


def test_of_hundreds_of_clocks_the_text_shows_those_that_matter() -> None:
    clocks = tuple(
        Clock(node=f"cn{number:03d}", ahead=1 + number / 100, error=0.1, markers=50) for number in range(1, 300)
    )
    told = msgspec.structs.replace(
        incident(), clocks=clocks, culprit=Culprit(ranks=(5,), nodes=("cn007",), confidence=0.9)
    )
    shown = render(msgspec.structs.replace(report(), incident=told), "text").partition("CLOCKS")[2].splitlines()[:9]
    assert [line.split()[0] for line in shown[1:7]] == ["cn007", "cn299", "cn298", "cn297", "cn296", "cn295"]
    assert "and 293 more, within +3.94 s of it either way" in shown[7]
