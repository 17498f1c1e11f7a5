"""An incident and a bare verdict reach programs that read findings alone: code scanning, GitLab, annotations, tables."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import msgspec
import pytest

from preflight.report.parts.results import results
from preflight.report.render import render
from preflight.vocabulary.finding import Location
from preflight.vocabulary.report import SCHEMA, Report

from . import incidents, samples

FAILED = incidents.report()
PLANNED = Report(
    schema=SCHEMA, command="plan", tool=samples.TOOL, verdict="NO-GO", inputs={"script": "train.py"}, findings=()
)


def test_an_incident_is_a_result_of_sarif_with_its_line_and_what_speaks_for_it(repository: Path) -> None:
    log = json.loads(render(FAILED, "sarif"))
    schema = json.loads((repository / "tests/data/sarif-schema-2.1.0.json").read_text("utf-8"))
    jsonschema.validate(log, schema, cls=jsonschema.Draft4Validator)
    [result] = log["runs"][0]["results"]
    assert FAILED.incident is not None
    first = FAILED.incident.first_failure
    assert first is not None
    assert (result["ruleId"], result["level"]) == ("oom.host-kill", "error")
    assert FAILED.incident.headline in result["message"]["text"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == first.path
    assert place["region"]["startLine"] == first.line
    others = {one["physicalLocation"]["artifactLocation"]["uri"] for one in result["relatedLocations"]}
    assert {"logs/agent1.log", "logs/rank_5.log"} <= others
    assert [rule["id"] for rule in log["runs"][0]["tool"]["driver"]["rules"]] == ["oom.host-kill"]


def test_an_incident_is_an_annotation_a_row_and_the_text_of_a_verdict() -> None:
    annotation, verdict = render(FAILED, "github").splitlines()
    assert "title=oom.host-kill" in annotation
    assert verdict.startswith("::error title=preflight investigate")
    [row] = csv.DictReader(io.StringIO(render(FAILED, "csv")))
    assert (row["rule"], row["severity"]) == ("oom.host-kill", "error")
    assert row["fix"]
    [case] = ElementTree.fromstring(render(FAILED, "junit")).iter("testcase")
    assert "hint: " in (case.findtext("failure") or "")


def test_where_nothing_is_certain_it_is_a_warning_and_where_all_is_well_there_is_none() -> None:
    [unsure] = results(msgspec.structs.replace(FAILED, verdict="UNKNOWN"))
    assert unsure.severity == "warning"
    assert results(msgspec.structs.replace(FAILED, verdict="GO")) == ()


def test_an_incident_that_is_an_alarm_is_told_once() -> None:
    assert FAILED.incident is not None
    unsigned = msgspec.structs.replace(FAILED.incident, signature=None)
    alarmed = msgspec.structs.replace(FAILED, incident=unsigned, findings=(samples.NOTE,))
    assert results(alarmed) == (samples.NOTE,)
    assert [one.code for one in results(msgspec.structs.replace(FAILED, findings=(samples.NOTE,)))] == [
        "REP001", "oom.host-kill",
    ]  # fmt: skip


def test_a_verdict_that_no_finding_gives_is_a_result_itself() -> None:
    [told] = results(PLANNED)
    assert (told.code, told.severity, told.location) == ("plan-verdict", "error", Location(path="train.py"))
    assert results(msgspec.structs.replace(PLANNED, verdict="GO")) == ()
    assert results(samples.NO_GO) == samples.NO_GO.told


def _issues(report: Report, **given: Any) -> Any:
    return json.loads(render(report, "gitlab", **given))


def test_issues_for_gitlab_stand_at_their_lines() -> None:
    issues = _issues(samples.NO_GO, sources=samples.SOURCES)
    assert len({one["fingerprint"] for one in issues}) == len(issues) == len(samples.NO_GO.told)
    assert issues[0]["location"] == {"path": "train.py", "lines": {"begin": 11}}
    assert [one["severity"] for one in issues] == ["critical", "critical", "minor", "info"]
    assert issues[0]["check_name"] == "MEM002 memory-exceeds-capacity"
    assert "hint: Train in bf16" in issues[0]["description"]


def test_a_line_for_gitlab_is_one_of_the_file() -> None:
    cell = msgspec.structs.replace(samples.NOTE, location=Location(path="./n.ipynb", line=3, cell=2))
    nowhere = msgspec.structs.replace(samples.NOTE, location=Location(rank=1))
    [issue] = _issues(msgspec.structs.replace(samples.GO, findings=(cell, nowhere)))
    assert issue["location"] == {"path": "n.ipynb", "lines": {"begin": 1}}


@pytest.mark.parametrize("report", samples.ALL.values(), ids=samples.ALL.keys())
def test_gitlab_takes_any_report(report: Report) -> None:
    for issue in _issues(report, sources=samples.SOURCES):
        assert set(issue) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert issue["location"]["lines"]["begin"] >= 1
