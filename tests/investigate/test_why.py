"""The chain of causes: what a person adds is told, and never observed."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.errors import InputError
from preflight.investigate.diagnose import report_of
from preflight.investigate.saved import report_for
from preflight.investigate.why import explained
from preflight.report.render import render
from preflight.vocabulary.log import Reading

from .readings import SIGNATURES, files, hit, steps


def one() -> Reading:
    return Reading(
        files=files(2), hits=(hit("oom.allocation", 1, 50, 9.0),), steps=steps(range(2), range(5)), world_size=2
    )


def test_an_answer_is_told_and_a_question_stays_open() -> None:
    report = explained(report_of(one(), SIGNATURES, ["logs"]), ["the batch was doubled", "nobody looked at the memory"])
    assert report.incident is not None
    told = [why for why in report.incident.five_whys if why.known == "told"]
    assert [why.answer for why in told] == ["the batch was doubled", "nobody looked at the memory"]
    assert told[1].question == "Why: the batch was doubled?"
    assert report.incident.five_whys[-1].answer is None


def test_a_report_that_was_written_down_is_gone_on_with(tmp_path: Path) -> None:
    first = explained(report_of(one(), SIGNATURES, ["logs"]), ["the batch was doubled"])
    path = tmp_path / "why.json"
    path.write_text(render(first, "json"))
    again = explained(report_for([str(path)]), ["no review"])
    assert again.incident is not None
    assert [why.answer for why in again.incident.five_whys if why.known == "told"] == [
        "the batch was doubled",
        "no review",
    ]
    text = render(again, "text")
    assert "[told]" in text
    assert "TIMELINE" not in text


def test_a_healthy_run_has_nothing_to_explain() -> None:
    report = report_of(Reading(files=files(2), steps=steps(range(2), range(9)), world_size=2), SIGNATURES, ["logs"])
    with pytest.raises(InputError, match="no failure"):
        explained(report, [])
