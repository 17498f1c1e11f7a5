"""``preflight investigate fix``: shown, applied when asked, taken back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from preflight.cli.investigate_.fix import command
from preflight.errors import InputError, UsageError

SCRIPT = "#!/bin/sh\ntorchrun train.py --batch-size 32\n"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.sh").write_text(SCRIPT)
    return tmp_path / "run.sh"


def fix(*arguments: str) -> Any:
    return command.main(list(arguments), prog_name="fix", standalone_mode=False, help_option_names=["-h", "--help"])


def test_a_list_is_narrowed_by_category_and_cause(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fix("oom", "immediate", "--format", "json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["remedies"]
    assert {(one["category"], one["kind"]) for one in listed["remedies"]} == {("oom", "immediate")}
    assert fix("fragmentation") == 0
    assert "expandable-segments" in capsys.readouterr().out


def test_a_remedy_shows_what_it_needs_and_how_it_is_taken_back(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fix("reduce-batch") == 0
    text = capsys.readouterr().out
    for word in ("when ", "effect ", "cost ", "danger ", "proved by ", "taken back ", "told before "):
        assert f"\n{word}" in text
    assert fix("reduce-batch", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["id"] == "reduce-batch"


def test_nothing_is_changed_without_a_word(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fix("reduce-batch", "--to", "run.sh") == 0
    shown = capsys.readouterr()
    assert "-torchrun train.py --batch-size 32\n+torchrun train.py --batch-size 16\n" in shown.out
    assert "--apply does it" in shown.err
    with pytest.raises(UsageError, match="nobody is there"):
        fix("reduce-batch", "--to", "run.sh", "--apply")
    assert script.read_text() == SCRIPT
    assert not (script.parent / ".preflight").exists()


def test_a_change_is_written_with_its_reversal_and_taken_back(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script.chmod(0o755)
    assert fix("reduce-batch", "--to", "run.sh", "--apply", "--yes") == 0
    assert "--batch-size 16" in script.read_text()
    assert script.stat().st_mode & 0o777 == 0o755
    assert "--revert --to run.sh" in capsys.readouterr().err
    with pytest.raises(UsageError, match=r"applied to run\.sh before"):
        fix("reduce-batch", "--to", "run.sh", "--apply", "--yes")
    assert fix("reduce-batch", "--to", "run.sh", "--revert", "--yes") == 0
    assert script.read_text() == SCRIPT
    with pytest.raises(InputError, match="was not applied"):
        fix("reduce-batch", "--to", "run.sh", "--revert", "--yes")


def test_a_file_in_which_nothing_fits_is_undecidable(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fix("clip-gradients", "--to", "run.sh", "--apply", "--yes") == 3
    assert "not changed:" in capsys.readouterr().err
    assert script.read_text() == SCRIPT


def test_misuse_is_said(script: Path) -> None:
    with pytest.raises(UsageError, match="no file is named"):
        fix("reduce-batch", "--apply")
    with pytest.raises(UsageError, match="no remedy is named"):
        fix("--apply", "--to", "run.sh")
    with pytest.raises(UsageError, match="no remedies for 'reduce-bach'"):
        fix("reduce-bach")
    with pytest.raises(UsageError, match="no remedy is called 'reduce-bach'") as refused:
        fix("reduce-bach", "--to", "run.sh")
    assert refused.value.hint == "did you mean reduce-batch?"
    with pytest.raises(UsageError, match="NAME=VARIABLE"):
        fix("clip-gradients", "--to", "run.sh", "--with", "model")


def test_remedies_for_a_report(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hypothesis = {"cause": "fragmentation", "title": "memory in pieces", "category": "oom", "probability": 0.8}
    incident = {
        "state": "crashed", "onset": "running", "scope": "rank", "category": "oom", "root_category": "oom",
        "symptom_category": "oom", "signature": None, "confidence": 0.8, "headline": "x", "culprit": {},
        "hypotheses": [hypothesis],
    }  # fmt: skip
    Path("report.json").write_text(json.dumps({"schema": "preflight.report/1", "incident": incident}))
    assert fix("--for", "report.json") == 0
    assert "1. expandable-segments" in capsys.readouterr().out
    Path("other.json").write_text("{}")
    with pytest.raises(InputError, match="holds no incident"):
        fix("--for", "other.json")
