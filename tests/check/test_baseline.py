"""The baseline: what is known is hidden, what is new is not, and lines may move."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from preflight.cli.main import main

LOOP = """\
for _ in range(10):
    loss = model(torch.randn(8, 16)).sum()
    loss.backward()
    optimizer.step()
"""
SCRIPT = (
    "import torch\n\nmodel = torch.nn.Linear(16, 4)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n" + LOOP
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "train.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _check(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any], str]:
    status = main(["check", *arguments, "--format", "json"])
    said = capsys.readouterr()
    return status, json.loads(said.out), said.err


def _codes(report: dict[str, Any]) -> list[str]:
    return [finding["code"] for finding in report["findings"]]


def test_the_first_run_writes_it_and_ends_clean(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, report, said = _check(capsys, "train.py", "--baseline", "known.json")
    assert (status, report["verdict"], _codes(report)) == (0, "GO", [])
    assert "baseline known.json written" in said
    assert "zero_grad" not in str(report.get("recommendations")), "what is hidden is not advised"
    content = json.loads((project / "known.json").read_text())
    assert content["schema"] == "preflight.baseline/1"
    assert {
        "path": "train.py",
        "code": "OPT001",
        "rule": "gradients-never-zeroed",
        "line": "loss.backward()",
        "count": 1,
    } in content["findings"]


def test_lines_may_move_and_new_findings_are_shown(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _check(capsys, "train.py", "--baseline", "known.json")
    (project / "train.py").write_text(
        "# a comment\n\n" + SCRIPT.replace("loss.backward()", "loss.backward( )").replace("( )", "()")
    )
    assert _check(capsys, "train.py", "--baseline", "known.json")[0] == 0
    (project / "train.py").write_text(SCRIPT + LOOP)
    status, report, _ = _check(capsys, "train.py", "--baseline", "known.json")
    assert status == 1
    assert _codes(report).count("OPT001") == 1, "one of two equal ones is known"
    _check(capsys, "train.py", "--baseline", "known.json", "--update-baseline")
    assert _check(capsys, "train.py", "--baseline", "known.json")[0] == 0


def test_a_line_that_changed_is_found_again(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _check(capsys, "train.py", "--baseline", "known.json")
    (project / "train.py").write_text(SCRIPT.replace("loss.backward()", "loss.mean().backward()"))
    assert _check(capsys, "train.py", "--baseline", "known.json")[0] == 1


def test_a_folder(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "broken.py").write_text("def f(:\n")
    (project / "other.py").write_text(SCRIPT)
    status, report, _ = _check(capsys, ".", "--baseline", "known.json")
    assert (status, _codes(report)) == (0, [])
    assert {script["inputs"]["path"] for script in report["scripts"]} == {"other.py", "train.py"}
    (project / "third.py").write_text(SCRIPT)
    status, report, _ = _check(capsys, ".", "--baseline", "known.json")
    assert status == 1
    assert {finding["location"]["path"] for finding in report["findings"]} == {"third.py"}


def test_paths_are_those_of_the_baseline_not_of_the_caller(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _check(capsys, "train.py", "--baseline", "known.json")
    (project / "sub").mkdir()
    monkeypatch.chdir(project / "sub")
    assert _check(capsys, "../train.py", "--baseline", "../known.json")[0] == 0


def test_the_configuration_names_it(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "pyproject.toml").write_text('[tool.preflight]\nbaseline = "known.json"\n')
    status, _, said = _check(capsys, "train.py")
    assert status == 1, "a baseline that is not there hides nothing"
    assert "there is no baseline known.json yet" in said
    assert not (project / "known.json").exists()
    assert _check(capsys, "train.py", "--update-baseline")[0] == 0
    assert _check(capsys, "train.py")[0] == 0


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"schema": "preflight.baseline/9", "findings": []}', "\xff"])
def test_a_file_that_is_not_a_baseline(content: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "known.json").write_text(content, encoding="latin-1")
    assert main(["check", "train.py", "--baseline", "known.json"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("preflight: error: known.json: ")
    assert (project / "known.json").read_text(encoding="latin-1") == content
