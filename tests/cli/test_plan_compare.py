from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from preflight.cli.main import main


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["plan", "compare", *words])
    seen = capsys.readouterr()
    return status, seen.out, seen.err


def rows(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    status, out, err = call(capsys, *words, "--format", "json")
    assert status in (0, 1, 3), err
    found: list[dict[str, Any]] = json.loads(out)["plan"]["compared"]
    return found


def test_the_same_request_on_several_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    h100, b200, many = rows(
        capsys, "h100", "b200", "16xA100 40GB", "transformer", "7", "64", "--gpus", "8", "--strategy", "fsdp"
    )
    assert [one["cluster"] for one in (h100, b200)] == ["8 x NVIDIA H100 SXM5 80GB", "8 x NVIDIA B200 SXM 180GB"]
    assert (many["gpus"], many["candidate"]["parallel"]["dp_shard"]) == (16, 16)
    assert b200["candidate"]["step"]["seconds"]["mid"] < h100["candidate"]["step"]["seconds"]["mid"]
    assert b200["duration"]["tokens"] == h100["duration"]["tokens"]
    assert h100["candidate"]["memory"]["peak_bytes"] == b200["candidate"]["memory"]["peak_bytes"]


def test_a_single_answer_is_that_of_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    found = rows(capsys, "h100", "h200", "7", "64", "--gpus", "8", "--strategy", "fsdp")[0]
    assert main(["plan", "7", "64", "--gpus", "8", "--strategy", "fsdp", "--format", "json"]) in (0, 1, 3)
    alone = json.loads(capsys.readouterr().out)
    assert found["candidate"]["step"] == alone["step"] | {"bottleneck": found["candidate"]["step"]["bottleneck"]}
    assert found["candidate"]["memory"]["peak_bytes"] == alone["memory"]["peak_bytes"]


def test_clusters_come_from_files_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "ours.yaml"
    file.write_text("hardware: {gpu_type: A100 80GB}\ncluster: {nodes: 2, gpus_per_node: 8, inter_node: ethernet_25}\n")
    ours, theirs = rows(capsys, str(file), "16xA100 80GB", "1", "64", "--strategy", "data_parallel")
    assert (ours["gpus"], theirs["gpus"]) == (16, 16)
    assert ours["candidate"]["step"]["seconds"]["mid"] > theirs["candidate"]["step"]["seconds"]["mid"]


def test_where_there_is_no_layout_the_reason_stands(capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = rows(capsys, "8xh100", "12xh100", "7", "64", "--tp", "8")
    assert good["reason"] is None
    assert bad["candidate"] is None
    assert "12 GPUs" in bad["reason"]


@pytest.mark.parametrize("form", ["text", "markdown", "html", "csv"])
def test_every_form_shows_the_table(capsys: pytest.CaptureFixture[str], form: str) -> None:
    status, out, _ = call(capsys, "h100", "b200", "7", "64", "--gpus", "8", "--strategy", "fsdp", "--format", form)
    assert status in (0, 1, 3)
    assert "8 x NVIDIA H100 SXM5 80GB" in out
    assert "8 x NVIDIA B200 SXM 180GB" in out
    if form == "csv":
        found = list(csv.DictReader(io.StringIO(out)))
        assert float(found[0]["step_seconds"]) > float(found[1]["step_seconds"])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("h100 7 32", "a comparison needs at least two clusters"),
        ("h100 h1000 7 32", "CLUSTER: unknown GPU 'h1000'"),
        ("h100 b200 7 32 --gpu a100", "--gpu, and the GPUs to compare"),
        ("h100 0xb200 7 32", "CLUSTER is '0', which is too small"),
        ("h100 b200", "no model"),
        ("h100 nothere.yaml 7 32", "nothere.yaml is not there"),
        ("h100 b200 7 32 --gpus 8 --tp 3", "tensor 3"),
    ],
)
def test_bad_input_is_one_clear_error(capsys: pytest.CaptureFixture[str], line: str, message: str) -> None:
    status, out, err = call(capsys, *line.split())
    assert (status, out) == (2, "")
    assert message in err.splitlines()[0]


def test_help_of_a_plan_lists_its_subcommands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--help"]) == 0
    assert "compare" in capsys.readouterr().out.partition("Commands:")[2]
    assert main(["plan", "compare", "--help"]) == 0
    assert capsys.readouterr().out.startswith("Usage: preflight plan compare [OPTIONS] CLUSTER...")
