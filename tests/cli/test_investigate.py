"""``preflight investigate``: exit codes, formats, standard input, subcommands beside paths."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from .command_line import run

FAILED = (
    "2026-01-01 10:00:01,000 INFO step 1 loss 2.0\n"
    "2026-01-01 10:00:02,000 INFO step 2 loss 1.9\n"
    "Traceback (most recent call last):\n"
    '  File "/opt/job/train.py", line 9, in <module>\n'
    "    y = model(x)\n"
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)\n"
)
HEALTHY = "".join(
    f"2026-01-01 10:00:{step:02d},000 INFO step {step} loss {2 - step / 50:.3f}\n" for step in range(1, 20)
)


def said(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    return dict(json.loads(capsys.readouterr().out)["incident"])


def test_a_failure_is_1_and_a_healthy_log_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.log").write_text(FAILED)
    (tmp_path / "good.log").write_text(HEALTHY)
    assert run("investigate", tmp_path / "bad.log", "--format", "json") == 1
    found = said(capsys)
    assert (found["category"], found["state"]) == ("usercode", "crashed")
    assert found["first_failure"]["line"] == 6
    assert run("investigate", tmp_path / "good.log", "--format", "json") == 0
    assert said(capsys)["category"] == "none"


def test_what_tells_nothing_is_3(tmp_path: Path) -> None:
    (tmp_path / "empty.log").write_text("hello\n")
    assert run("investigate", tmp_path / "empty.log") == 3


def test_misuse_is_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("investigate") == 2
    assert "nothing to investigate is given" in capsys.readouterr().err
    assert run("investigate", "-", "--follow") == 2
    assert "cannot be followed" in capsys.readouterr().err


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(FAILED.encode())))
    assert run("investigate", "-") == 1
    text = capsys.readouterr().out
    assert "NO-GO" in text
    assert "mat1 and mat2 shapes cannot be multiplied" in text


def test_a_folder_that_bears_the_name_of_a_command_is_reached_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "why").mkdir()
    (tmp_path / "why" / "train.log").write_text(FAILED)
    monkeypatch.chdir(tmp_path)
    assert run("investigate", "./why") == 1
    assert "WHO BEGAN IT" in capsys.readouterr().out
    assert run("investigate", "why") == 2
    assert "nothing to explain is given" in capsys.readouterr().err


def test_why_keeps_what_a_person_adds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.log").write_text(FAILED)
    kept = tmp_path / "why.json"
    assert run("investigate", "why", tmp_path / "train.log", "--add", "the data set was changed", "-o", kept) == 1
    capsys.readouterr()
    assert run("investigate", "why", kept) == 1
    text = capsys.readouterr().out
    assert "the data set was changed [told]" in text
    assert "Why: the data set was changed?" in text


def test_a_folder_of_ones_own_adds_signatures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "mine" / "signatures" / "house"
    folder.mkdir(parents=True)
    (folder / "lamp.toml").write_text(
        'title = "The lamp of the rack went out"\ncategory = "hardware"\nrole = "root"\nliterals = ["LAMP OUT"]\n'
        'sources = ["our own"]\nmatch = ["LAMP OUT in rack 3"]\nno_match = ["lamp on"]\nnext = ["Go and look."]\n'
    )
    (tmp_path / "train.log").write_text("LAMP OUT in rack 3\n")
    assert run("investigate", tmp_path / "train.log", "--signatures", tmp_path / "mine", "--format", "json") == 1
    found = said(capsys)
    assert (found["category"], found["signature"]) == ("hardware", "house.lamp")
