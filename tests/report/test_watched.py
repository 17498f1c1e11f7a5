"""A watched run in every format: each group of violations is one alarm, its root with everything that is known."""

from __future__ import annotations

import csv
import io
import json
from xml.etree import ElementTree

import msgspec
import pytest

from preflight.report.json import from_json
from preflight.report.render import formats, render
from preflight.vocabulary.finding import Evidence, Fix, Location
from preflight.vocabulary.invariant import Violation
from preflight.vocabulary.report import Report, Tool
from preflight.vocabulary.watched import Mark, Series, Watched

SOURCE = "import torch\nfor x in loader:\n    loss(model(x)).backward()\n    optimizer.step()\n"


def violation(relation: str, group: int, **more: object) -> Violation:
    known: dict[str, object] = {
        "rule": relation, "code": f"{relation}-1a2b", "severity": "error", "confidence": "certain",
        "message": f"{relation} <broken>", "location": Location(path="train.py", line=4, rank=0, step=12),
        "invariant": f"{relation}-1a2b", "relation": relation, "first_step": 12, "first_iteration": 13, "last_step": 40,
        "count": 29, "ranks": (0, 1, 2, 3), "group": group,
    }  # fmt: skip
    return Violation(**(known | more))  # type: ignore[arg-type]


REPORT = Report(
    schema="preflight.report/1",
    command="monitor check",
    tool=Tool("preflight", "0"),
    verdict="NO-GO",
    inputs={"path": "trace"},
    violations=(
        violation(
            "gradients-cleared", 1, severity="warning",
            variables=tuple(f"model.layers.{n}.weight" for n in range(12)), expected="no gradient", seen={"left": 12},
            evidence=(Evidence("12 left", arithmetic="expected no gradient"),), cause="zero_grad is missing",
            fix=Fix("call optimizer.zero_grad()"), neighbourhood=("forward model", "> step optimizer0:SGD"),
        ),
        *(violation(f"follower-{n}", 1) for n in range(10)),
        violation("rate-above-zero", 2, severity="warning", ranks=(1, 3), count=1, first_iteration=12),
    ),
    watched=Watched(
        iterations=50, steps=50, ranks=(0, 1, 2, 3), world_size=4, examples=900, in_force=12, judged=10,
        marks=(Mark(0, 12, 3), Mark(3, 14, 1)), mark_width=2,
        series=(Series(name="loss", steps=(0, 1, 2), values=(2.0, None, 1.0)),),
    ),
)  # fmt: skip


@pytest.mark.parametrize("width", [80, 120])
def test_text_tells_the_root_with_its_line_and_the_others_in_a_line_each(width: int) -> None:
    text = render(REPORT, "text", width=width, sources={"train.py": SOURCE})
    assert max(map(len, text.splitlines())) <= width
    flat = " ".join(text.split())
    assert "VIOLATIONS (2 alarms)" in text
    assert "train.py:4, ranks 0 to 3, since step 12 (iteration 13) warning: " in flat
    assert "gradients-cleared, 29 times until step 40" in flat
    assert "4 |     optimizer.step()" in text
    assert "model.layers.7.weight and 4 more" in flat
    assert 'seen: {"left":12}' in flat
    assert "cause: usually zero_grad is missing" in flat
    assert "hint: call optimizer.zero_grad()" in flat
    assert "around: forward model, > step optimizer0:SGD" in flat
    assert "10 more that began with it" in flat
    assert "and 2 others (--verbose, or the JSON)" in flat
    assert "ranks 1, 3, since step 12 warning: rate-above-zero" in flat
    assert "50 steps on 4 ranks, 10 of 12 invariants judged 900 times" in flat
    assert "CRITICAL ERRORS" not in text


def test_a_group_counts_once_and_is_as_severe_as_its_worst() -> None:
    assert [(one.relation, one.severity) for one in REPORT.alarms] == [
        ("gradients-cleared", "error"),
        ("rate-above-zero", "warning"),
    ]
    assert "1 error, 1 warning" in render(REPORT, "text")
    assert REPORT.critical_errors == ("gradients-cleared <broken> (train.py:4)",)


def test_json_is_read_back() -> None:
    assert from_json(render(REPORT, "json")) == REPORT
    assert len(json.loads(render(REPORT, "json"))["violations"]) == 12


def test_exchange_formats_have_one_result_for_each_group() -> None:
    sarif = json.loads(render(REPORT, "sarif"))["runs"][0]
    assert [(one["ruleId"], one["level"]) for one in sarif["results"]] == [
        ("gradients-cleared-1a2b", "error"),
        ("rate-above-zero-1a2b", "warning"),
    ]
    junit = ElementTree.fromstring(render(REPORT, "junit"))
    assert junit.attrib["tests"] == "3"
    assert junit.attrib["failures"] == "2"
    github = render(REPORT, "github").splitlines()
    assert github[0].startswith("::error file=train.py,line=4,title=gradients-cleared-1a2b")
    assert github[1].startswith("::warning ")
    assert len(github) == 3
    rows = list(csv.DictReader(io.StringIO(render(REPORT, "csv"))))
    assert [row["rule"] for row in rows] == ["gradients-cleared", "rate-above-zero"]


def test_the_page_draws_the_map_and_the_curves() -> None:
    page = render(REPORT, "html", sources={"train.py": SOURCE})
    assert "gradients-cleared &lt;broken&gt;" in page
    assert "<broken>" not in page
    assert "rank 0, steps 12 to 13: 3 broken" in page
    assert page.count("<polyline") == 2, "a value that is not finite breaks the curve"
    assert "alarm at step 12" in page
    assert "http" not in page.replace("http-equiv", "")


def test_a_curve_that_never_changes_lies_in_the_middle() -> None:
    watched = REPORT.watched
    assert watched is not None
    flat = Series(
        name="learning rate", subject="optimizer0", unit=None, rank=0, steps=(0, 1, 2), values=(0.1, 0.1, 0.1)
    )
    page = render(msgspec.structs.replace(REPORT, watched=msgspec.structs.replace(watched, series=(flat,))), "html")
    assert "(0.1)" in page
    heights = {
        point.split(",")[1]
        for point in page.partition("<polyline")[2].partition('points="')[2].partition('"')[0].split()
    }
    assert heights == {"50.0"}


def test_values_of_one_step_lie_beside_each_other_and_the_axis_is_named() -> None:
    watched = REPORT.watched
    assert watched is not None
    twice = Series(name="loss", steps=(0, 0, 1, 1, 2, 2), values=(5.0, 4.0, 3.0, 2.0, 1.0, 0.0))
    page = render(
        msgspec.structs.replace(REPORT, watched=msgspec.structs.replace(watched, series=(twice,), steps=3)), "html"
    )
    drawn = page.partition("<polyline")[2].partition('points="')[2].partition('"')[0].split()
    assert [point.split(",")[0] for point in drawn] == ["0.0", "200.0", "400.0", "600.0", "800.0", "1000.0"]
    assert "From left to right: step 0 to 2. Dashed: where an alarm began." in page


def test_many_names_are_folded() -> None:
    names = tuple(f"blocks.{number}.weight" for number in range(29))
    broken = msgspec.structs.replace(REPORT.violations[0], variables=names)
    page = render(msgspec.structs.replace(REPORT, violations=(broken, *REPORT.violations[1:])), "html")
    before, _, folded = page.partition("<details><summary>All 29 names</summary>")
    assert "blocks.28.weight" not in before
    assert all(name in folded for name in names)
    few = msgspec.structs.replace(REPORT.violations[0], variables=names[:4])
    assert "<summary>All" not in render(msgspec.structs.replace(REPORT, violations=(few,)), "html")


def test_markdown_has_the_alarms() -> None:
    text = render(REPORT, "markdown", sources={"train.py": SOURCE})
    assert "## Violations (2 alarms)" in text
    assert "optimizer.step()" in text
    assert "- hint: call optimizer.zero\\_grad()" in text


@pytest.mark.parametrize("format", formats())
def test_every_format_shows_a_run_in_which_all_is_well(format: str) -> None:
    import msgspec

    well = msgspec.structs.replace(REPORT, verdict="GO", violations=())
    assert render(well, format)


def test_a_value_between_two_that_are_missing_is_a_dot() -> None:
    page = render(REPORT, "html")
    assert page.count("stroke-linecap:round") == 2  # the first and the last of three, of which the second is missing


def test_of_many_alarms_most_are_folded_and_none_is_left_out() -> None:
    many = msgspec.structs.replace(REPORT, violations=tuple(violation(f"relation-{n}", n) for n in range(1, 301)))
    shown, folded = render(many, "html").split('<details class="more"><summary>275 more</summary>')
    assert shown.count('<article class="error"') == 25
    assert folded.count('<article class="error"') == 275
