"""The head of a program, told again behind what went wrong: another start of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.source.logs import read_logs
from preflight.source.logs.begun_again import BegunAgain

_LOGGED = """\
2020-05-15 20:{0},669 - kit.core - INFO - Beginning experiment!
2020-05-15 20:{0},669 - kit.core - INFO - Experiment folder: exp/minimal
2020-05-15 20:{0},677 - kit.core - DEBUG - Commit hash: '3513acf'
2020-05-15 20:{0},678 - kit.data - DEBUG - Creating dataloader for data/source1.csv
2020-05-15 20:{0},679 - kit.data - DEBUG - Number of sentences: 2
2020-05-15 20:{0},679 - kit.data - DEBUG - Number of sentences: 2
"""
_RAISED = "Traceback (most recent call last):\n  File \"run.py\", line 9, in <module>\n    h = n\nNameError: name 'n' is not defined\n"
_TWICE = "Using the plain backend\nseed: 3\nfolder: out\nINFO:root:start\nbegins at {}\n"


def begun(folder: Path, text: str) -> int | None:
    (folder / "run.log").write_text(text)
    return read_logs([folder]).files[0].begun_again


def test_a_start_of_other_times_is_one(tmp_path: Path) -> None:
    assert begun(tmp_path, _LOGGED.format("45:52") + _RAISED + _LOGGED.format("46:04")) == 11


def test_two_starts_before_the_first_exception_are_no_reason_to_see_no_third(tmp_path: Path) -> None:
    text = _TWICE.format(1) + _TWICE.format(2) + _RAISED + _TWICE.format(3)
    assert begun(tmp_path, text) == 16


@pytest.mark.parametrize(
    "behind",
    [
        "2020-05-15 20:46:04,669 - kit.core - INFO - Experiment folder: exp/minimal\n",
        "".join(f"step 3: {line}\n" for line in _LOGGED.format("46:04").splitlines()),
        "",
    ],
)
def test_a_line_or_what_quotes_the_head_is_no_start(tmp_path: Path, behind: str) -> None:
    assert begun(tmp_path, _LOGGED.format("45:52") + _RAISED + behind) is None


def test_a_rule_of_dashes_costs_nothing() -> None:
    head = b" " + b"- " * 40 + b"-" * 5000 + b"\n" + b"=" * 5000 + b"\nTraceback (most recent call last):\n"
    again = BegunAgain(head)
    again.look(head, len(head), 1)
    assert again.line is None
