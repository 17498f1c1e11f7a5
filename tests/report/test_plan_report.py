"""A plan in every format: the numbers are the plan's, and nothing of the input is markup."""

from __future__ import annotations

import csv
import io
import json

import pytest

from preflight.plan.inputs.command_line import request_of
from preflight.plan.make import plan_report
from preflight.report.render import formats, render
from preflight.vocabulary.model import ModelSpec, model_in_words
from preflight.vocabulary.quantity import format_bytes
from preflight.vocabulary.report import Report


@pytest.fixture(scope="module")
def report() -> Report:
    return plan_report(
        request_of(
            ("transformer", "30", "128"), {"cluster__num_gpus": 4, "distribution__strategy": "pipeline_parallel"}
        )
    )


@pytest.mark.parametrize("format", [name for name in formats() if name in ("text", "markdown", "html")])
def test_a_page_tells_layout_memory_step_and_changes(report: Report, format: str) -> None:
    text = render(report, format, width=100)
    assert report.memory is not None
    assert report.memory.device_bytes is not None
    for words in ("pipeline 4", format_bytes(report.memory.device_bytes.mid), "matrix products", "GPU-hours"):
        assert words in text
    assert report.plan is not None
    assert report.plan.sensitivities[0].text.split(":")[0].split(" ->")[0] in text.replace("&gt;", ">")


@pytest.mark.parametrize("format", ["text", "markdown"])
def test_a_page_tells_the_size_of_the_model(format: str) -> None:
    text = render(
        plan_report(request_of((), {"model__name": "mixtral-8x7b", "run__global_batch": 8})), format, width=120
    )
    assert "46.7 B parameters, 12.88 B of them for a token: 32 layers, hidden 4096" in text


@pytest.mark.parametrize("format", ["text", "markdown", "html"])
@pytest.mark.parametrize(("model", "told"), [("resnet50", False), ("gpt2", True)])
def test_a_kind_of_attention_is_told_of_what_attends(format: str, model: str, told: bool) -> None:
    text = render(plan_report(request_of((), {"model__name": model, "run__global_batch": 8})), format, width=100)
    assert ("flash attention" in " ".join(text.split())) is told


def test_blocks_that_are_recomputed_are_counted_everywhere() -> None:
    asked = {"run__recompute": "full:12", "cluster__num_gpus": 8, "distribution__strategy": "auto"}
    report = plan_report(request_of(("7", "8"), asked))
    assert "full recomputation of 12 blocks" in " ".join(render(report, "text", width=100).split())
    assert ">full:12<" in render(report, "html")
    rows = list(csv.DictReader(io.StringIO(render(report, "csv"))))
    assert {(row["recompute"], row["recompute_layers"]) for row in rows} == {("full", "12")}


@pytest.mark.parametrize("width", [60, 80, 120])
def test_text_keeps_within_the_width(report: Report, width: int) -> None:
    for line in render(report, "text", width=width).splitlines():
        assert len(line) <= width


def test_csv_holds_the_candidates(report: Report) -> None:
    rows = list(csv.DictReader(io.StringIO(render(report, "csv"))))
    assert len(rows) == 1
    assert rows[0]["pp"] == "4"
    assert rows[0]["chosen"] == "true"
    assert all(row[name].isdigit() for row in rows for name in ("peak_bytes", "reserved_bytes", "device_bytes"))
    assert report.plan is not None
    assert report.plan.chosen is not None
    assert report.plan.chosen.step is not None
    assert float(rows[0]["step_seconds"]) == pytest.approx(report.plan.chosen.step.seconds.mid)


def test_json_has_the_sections_of_the_contract(report: Report) -> None:
    content = json.loads(render(report, "json"))
    plan = content["plan"]
    assert {"chosen", "candidates", "duration", "cost", "searched", "assumptions"} <= set(plan)
    assert plan["chosen"]["parallel"]["pp"] == 4
    assert len(plan["chosen"]["stages"]) == 4
    parts = content["step"]["breakdown"]
    assert sum(parts.values()) == pytest.approx(content["step"]["seconds"]["mid"])
    assert sum(content["memory"]["breakdown"].values()) == pytest.approx(content["memory"]["device_bytes"]["mid"])


def test_a_model_of_a_decoder_alone_is_put_into_words() -> None:
    model = ModelSpec(family="encoder_decoder", parameters=60_000_000, layers=0, decoder_layers=6, hidden=512)
    assert model_in_words(model) == "60 M parameters: 0 + 6 layers, hidden 512"
