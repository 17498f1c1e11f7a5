"""The folder of a run: commands leave their reports in it, and one page tells of all of them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from preflight.cli.parts.run_folder import KEPT

from .command_line import HEALTHY, NEVER_ZEROED, run


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PREFLIGHT_RUN", raising=False)
    Path("train.py").write_text(NEVER_ZEROED)
    return tmp_path


@pytest.fixture
def begun(project: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert run("report", "--begin") == 0
    assert "leave their reports in .preflight" in capsys.readouterr().err
    return project / ".preflight"


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder / "reports"))


def test_nothing_is_left_where_there_is_no_folder(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("check", "train.py")
    assert os.listdir(project) == ["train.py"]
    assert run("report") == 2
    assert "there is no folder .preflight" in capsys.readouterr().err


def test_a_run_from_an_error_to_its_end(begun: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", "train.py") == 1
    assert run("report") == 1
    assert "NO-GO by check" in capsys.readouterr().out
    Path("train.py").write_text(HEALTHY)
    assert run("check", "train.py") == 0
    assert run("plan", "transformer", "0.1", "8", "--gpus", "1") == 0
    capsys.readouterr()
    assert run("report") == 0
    text = capsys.readouterr().out
    assert "3 reports; the newest are GO" in text
    assert max(map(len, text.splitlines())) <= 80
    assert names(begun) == ["0001-check.json", "0002-check.json", "0003-plan.json"]
    # The report itself, and a comparison, are made of others and are not left.
    run("diff", begun / "reports" / "0001-check.json", "train.py")
    assert len(names(begun)) == 3


def test_the_page_has_the_newest_of_each_in_full(begun: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("check", "train.py")
    run("plan", "transformer", "0.1", "8", "--gpus", "1")
    capsys.readouterr()
    run("report", "-o", "life.html")
    page = Path("life.html").read_text()
    assert "preflight check train.py" in page
    assert "gradients-never-zeroed" in page
    assert "Breakdown at the peak" in page
    run("report", "--verbose")
    assert "gradients-never-zeroed" in capsys.readouterr().out


def test_an_entry_holds_the_very_report_and_the_command_line_without_secrets(
    begun: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    run("check", "train.py", "--format", "json", "--", "--token", "hf_abcdefghijklmnopqrstuvwxyz012345")
    shown = json.loads(capsys.readouterr().out)
    entry = json.loads((begun / "reports" / "0001-check.json").read_text())
    assert entry["report"] == shown
    assert entry["words"][:3] == ["preflight", "check", "train.py"]
    assert "abcdefghij" not in json.dumps(entry["words"])


def test_another_folder_can_be_named(project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PREFLIGHT_RUN", "runs/first")
    run("check", "train.py")
    monkeypatch.delenv("PREFLIGHT_RUN")
    assert names(project / "runs" / "first") == ["0001-check.json"]
    assert run("report", "runs/first") == 1


def test_what_cannot_be_read_is_named_and_the_rest_is_shown(begun: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("check", "train.py")
    (begun / "reports" / "0002-check.json").write_text("{")
    (begun / "reports" / "notes.txt").write_text("mine")
    capsys.readouterr()
    assert run("report") == 1
    assert "0002-check.json cannot be" in capsys.readouterr().out.replace("\n", " ")
    (begun / "reports" / "0001-check.json").unlink()
    assert run("report") == 2
    assert "holds no report yet" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_does_not_take_the_answer_away(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("occupied").write_text("a file")
    monkeypatch.setenv("PREFLIGHT_RUN", "occupied")
    assert run("check", "train.py") == 1
    seen = capsys.readouterr()
    assert "gradients-never-zeroed" in seen.out
    assert "the report is not left in occupied" in seen.err


def test_the_oldest_reports_go_first(begun: Path) -> None:
    reports = begun / "reports"
    for number in range(1, KEPT + 1):
        (reports / f"{number:04d}-check.json").write_text("{}")
    run("check", "train.py")
    assert len(names(begun)) == KEPT
    assert names(begun)[0] == "0002-check.json"
    assert names(begun)[-1] == f"{KEPT + 1:04d}-check.json"
