from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preflight.errors import InputError
from preflight.report.json import from_json
from preflight.report.render import render
from preflight.vocabulary.fact import Fact
from preflight.vocabulary.finding import Edit, Evidence, Finding, Fix, Location, Related
from preflight.vocabulary.memory import MemoryBreakdown, MemoryEstimate, Oom, TimelinePoint
from preflight.vocabulary.quantity import Interval
from preflight.vocabulary.report import SCHEMA, Efficiency, EfficiencyPart, NotEvaluated, Recommendation, Report, Tool

from . import samples

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
numbers = st.floats(allow_nan=False, allow_infinity=False)
whole = st.integers(1, 10**6)
steps = st.integers(0, 10**6)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | numbers | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)
locations = st.builds(
    Location, path=st.none() | words, line=st.none() | whole, cell=st.none() | whole, time=st.none() | numbers
)
evidence = st.builds(
    Evidence, what=words, value=st.none() | st.booleans() | numbers | words | st.integers(-(2**63), 2**63 - 1)
)
fixes = st.builds(
    Fix, title=words, edits=st.lists(st.builds(Edit, words, whole, whole, whole, whole, words), max_size=2).map(tuple)
)
findings = st.builds(
    Finding,
    rule=words,
    code=words,
    message=words,
    location=locations,
    related=st.lists(st.builds(Related, locations, words), max_size=2).map(tuple),
    evidence=st.lists(evidence, max_size=2).map(tuple),
    fix=st.none() | fixes,
)
intervals = st.none() | st.builds(Interval, numbers, numbers, numbers)
memories = st.builds(
    MemoryEstimate,
    peak_bytes=intervals,
    device_bytes=intervals,
    capacity_bytes=st.none() | whole,
    p_fit=st.none() | st.floats(0, 1),
    oom=st.none() | st.builds(Oom, step=steps, arithmetic=st.none() | words),
    breakdown=st.none() | st.builds(MemoryBreakdown, activations=numbers),
    timeline=st.lists(
        st.builds(TimelinePoint, step=steps, allocated_bytes=numbers, reserved_bytes=numbers), max_size=2
    ).map(tuple),
    reason=st.none() | words,
)
parts = st.lists(st.builds(EfficiencyPart, words, numbers, numbers, words), max_size=2).map(tuple)


def _reports(scripts: Any) -> st.SearchStrategy[Report]:
    return st.builds(
        Report,
        schema=st.just(SCHEMA),
        command=words,
        tool=st.builds(Tool, words, words),
        inputs=st.dictionaries(words, plain, max_size=3),
        findings=st.lists(findings, max_size=2).map(tuple),
        facts=st.dictionaries(words, st.builds(Fact, value=plain, reason=st.none() | words), max_size=3),
        memory=st.none() | memories,
        step=st.none() | st.dictionaries(words, plain, min_size=1, max_size=2),
        efficiency=st.none() | st.builds(Efficiency, numbers, words, parts),
        recommendations=st.lists(st.builds(Recommendation, change=words, effect=words), max_size=2).map(tuple),
        not_evaluated=st.lists(st.builds(NotEvaluated, words, words, words), max_size=2).map(tuple),
        scripts=scripts,
        notes=st.lists(words, max_size=2).map(tuple),
    )


reports = _reports(st.lists(_reports(st.just(())), max_size=2).map(tuple))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(reports)
def test_what_is_written_reads_back_equal(report: Report) -> None:
    assert from_json(render(report, "json")) == report


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(reports)
def test_every_format_shows_any_report(report: Report) -> None:
    for format in ("text", "sarif", "junit", "markdown", "github", "gitlab", "csv"):
        render(report, format).encode("utf-8")


def test_sections_that_are_not_filled_are_absent() -> None:
    report = Report(schema=SCHEMA, command="check", tool=samples.TOOL, verdict="GO")
    assert json.loads(render(report, "json")) == {
        "schema": "preflight.report/1",
        "command": "check",
        "tool": {"name": "preflight", "version": "0.1.0"},
        "verdict": "GO",
        "inputs": {},
        "findings": [],
    }


def test_the_shape_that_other_programs_read() -> None:
    report = json.loads(render(samples.SEVERAL, "json"))
    assert [script["verdict"] for script in report["scripts"]] == ["GO", "UNKNOWN", "NO-GO"]
    assert report["scripts"][0]["findings"] == []
    full = report["scripts"][2]
    assert list(full["memory"]["breakdown"]) == [
        "model_parameters", "gradients", "optimizer_states", "activations", "logits_and_loss",
        "communication_buffers", "workspace", "fragmentation", "context",
    ]  # fmt: skip
    assert list(full["memory"]["peak_bytes"]) == ["low", "mid", "high"]
    assert full["memory"]["oom"]["phase"] == "forward"
    assert full["memory"]["timeline"][0].keys() == {"step", "phase", "allocated_bytes", "reserved_bytes"}
    assert full["facts"]["sequence_length"] == {
        "value": None,
        "location": None,
        "how": None,
        "reason": "the dataset is not built in this file",
    }
    assert full["findings"][0]["location"] == {
        "path": "train.py",
        "line": 11,
        "column": 2,
        "end_line": 11,
        "end_column": 17,
    }
    assert full["findings"][1]["fix"]["edits"][0]["text"] == "loss.item()"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (math.nan, "value is not a number"),
        (-math.inf, "value is not finite"),
        (10**30, "value is an integer beyond 64 bits"),
    ],
)
def test_a_number_that_json_cannot_carry_is_null_with_the_reason(value: float, reason: str) -> None:
    report = Report(schema=SCHEMA, command="check", tool=samples.TOOL, verdict="GO", facts={"x": Fact(value)})
    fact = json.loads(render(report, "json"))["facts"]["x"]
    assert fact["value"] is None
    assert fact["reason"] == reason


def test_the_order_in_which_facts_were_found_does_not_show() -> None:
    one = Report(schema=SCHEMA, command="check", tool=samples.TOOL, verdict="GO", inputs={"a": 1, "b": 2})
    other = Report(schema=SCHEMA, command="check", tool=samples.TOOL, verdict="GO", inputs={"b": 2, "a": 1})
    assert render(one, "json") == render(other, "json")


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"schema": "preflight.report/1"}', b"\xff\xfe", '{"schema": "other/2"}']
)
def test_what_is_not_a_report_is_refused(text: str | bytes) -> None:
    with pytest.raises(InputError):
        from_json(text)
