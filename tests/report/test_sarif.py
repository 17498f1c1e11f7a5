from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from preflight.report.render import render
from preflight.vocabulary.finding import Finding, Location
from preflight.vocabulary.report import Report

from . import samples


@pytest.fixture(scope="module")
def schema(repository: Path) -> Any:
    return json.loads((repository / "tests/data/sarif-schema-2.1.0.json").read_text("utf-8"))


def _run(report: Report, **given: Any) -> Any:
    return json.loads(render(report, "sarif", **given))["runs"][0]


@pytest.mark.parametrize("report", samples.ALL.values(), ids=samples.ALL.keys())
def test_the_log_obeys_the_standard(report: Report, schema: Any) -> None:
    log = json.loads(render(report, "sarif", sources=samples.SOURCES, rules=samples.RULES))
    jsonschema.validate(log, schema, cls=jsonschema.Draft4Validator)


def test_the_schema_would_notice(schema: Any) -> None:
    log = json.loads(render(samples.NO_GO, "sarif"))
    log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]["startColumn"] = 0
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(log, schema, cls=jsonschema.Draft4Validator)


def test_a_result_has_place_level_related_places_and_confidence() -> None:
    result = _run(samples.NO_GO)["results"][0]
    assert (result["ruleId"], result["level"]) == ("MEM002", "error")
    assert result["properties"]["confidence"] == "certain"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "train.py", "uriBaseId": "%SRCROOT%"}
    assert place["region"] == {"startLine": 11, "startColumn": 2, "endLine": 11, "endColumn": 17}
    assert result["relatedLocations"][0]["message"]["text"] == "the model is built in fp32 here"
    assert [result["level"] for result in _run(samples.NO_GO)["results"]] == ["error", "error", "warning", "note"]


def test_a_fix_is_a_replacement() -> None:
    fix = _run(samples.NO_GO)["results"][1]["fixes"][0]
    assert fix["description"]["text"] == "Append loss.item() (safe)"
    assert fix["artifactChanges"][0]["replacements"] == [
        {
            "deletedRegion": {"startLine": 14, "startColumn": 16, "endLine": 14, "endColumn": 20},
            "insertedContent": {"text": "loss.item()"},
        }
    ]


def test_rules_carry_their_page_and_results_point_at_them() -> None:
    run = _run(samples.NO_GO, rules=samples.RULES)
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["EFF002", "MEM002", "MEM007", "REP001"]
    memory = rules[1]
    assert memory["fullDescription"]["text"] == "The run needs more memory than the GPU has."
    assert memory["help"]["markdown"].startswith("# memory-exceeds-capacity")
    assert memory["properties"]["precision"] == "very-high"
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in run["results"])


def _prints(report: Report, source: str) -> list[str]:
    results = _run(report, sources={"train.py": source})["results"]
    return [result["partialFingerprints"]["preflightFinding/v1"] for result in results]


def _moved(finding: Finding, lines: int) -> Finding:
    at = finding.location
    assert at.line is not None
    return msgspec.structs.replace(finding, location=Location(path=at.path, line=at.line + lines, column=at.column))


def test_fingerprints_stay_when_lines_move_and_differ_between_findings() -> None:
    moved = msgspec.structs.replace(samples.NO_GO, findings=tuple(_moved(item, 3) for item in samples.NO_GO.findings))
    before = _prints(samples.NO_GO, samples.SOURCE)
    assert before == _prints(moved, "# a\n# b\n# c\n" + samples.SOURCE)
    assert len(set(before)) == len(before)
    twice = msgspec.structs.replace(samples.NO_GO, findings=(samples.WORKERS, samples.WORKERS))
    assert len(set(_prints(twice, samples.SOURCE))) == 2


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("./a b/c#d.py", "a%20b/c%23d.py"),
        ("/srv/x.py", "file:///srv/x.py"),
        ("src\\x.py", "src/x.py"),
        ("C:\\data\\x y.py", "file:///C:/data/x%20y.py"),
        ("caf\u00e9.py", "caf%C3%A9.py"),
        ("a:b.py", "a%3Ab.py"),
    ],
)
def test_paths_become_uris(path: str, uri: str) -> None:
    finding = msgspec.structs.replace(samples.NOTE, location=Location(path=path, line=1))
    result = _run(msgspec.structs.replace(samples.GO, findings=(finding,)))["results"][0]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri


def test_a_line_of_a_notebook_cell_is_not_taken_for_a_line_of_the_file() -> None:
    finding = msgspec.structs.replace(samples.NOTE, location=Location(path="n.ipynb", line=3, column=1, cell=2))
    place = _run(msgspec.structs.replace(samples.GO, findings=(finding,)))["results"][0]["locations"][0]
    assert "region" not in place["physicalLocation"]
    assert place["logicalLocations"] == [{"fullyQualifiedName": "n.ipynb:cell 2:3:1"}]


def test_a_message_is_not_read_as_a_link_or_a_placeholder() -> None:
    finding = msgspec.structs.replace(samples.NOTE, message="see [here](1) and {0}, x[1]")
    result = _run(msgspec.structs.replace(samples.GO, findings=(finding,)))["results"][0]
    assert result["message"]["text"] == "see \\[here](1) and {{0}}, x\\[1]"
