"""``run.json``: what is written is read; what is broken, newer or another's is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from preflight.errors import TraceError
from preflight.monitor.trace.run_file import NAME, read_run, write_run
from preflight.vocabulary.trace import ProcessEnd, RecordedRun, ThinnedPart

RUN = RecordedRun(
    program="train.py",
    arguments=("python", "train.py", "--lr", "0.1"),
    directory="runs/é",
    versions={"python": "3.11.7", "torch": None},
    world_size=2,
    budget=2.0,
    recorded={"state": {"level": "exact", "every": 10}, "api": False},
    thinned=(ThinnedPart(what="tensor", every=4, rank=1, since=30, share=0.03, reason="above the budget"),),
    exit_code=0,
    processes=(ProcessEnd(pid=7, rank=0, exit_code=0), ProcessEnd(pid=8, rank=1, signal=9)),
    started=1000.5,
    ended=1010.0,
    notes=("a note",),
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_run(tmp_path, RecordedRun())
    assert read_run(tmp_path) == RecordedRun()
    write_run(tmp_path, RUN)
    assert read_run(tmp_path) == RUN
    assert [path.name for path in tmp_path.iterdir()] == [NAME]
    assert json.loads((tmp_path / NAME).read_text("utf-8"))["schema"] == "preflight.trace/1"


def test_there_may_be_none(tmp_path: Path) -> None:
    assert read_run(tmp_path) is None


def test_fields_of_a_later_version_of_the_same_format_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text('{"schema": "preflight.trace/1", "program": "a.py", "later": {"x": 1}}')
    assert read_run(tmp_path) == RecordedRun(program="a.py")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "damaged"),
        ('{"schema": "preflight.trace/1", "program', "damaged"),
        ("[]", "damaged"),
        ('{"program": "a.py"}', "damaged"),
        ('{"schema": "preflight.trace/1", "world_size": "two"}', "damaged"),
        ('{"schema": "preflight.trace/2", "world_size": "two"}', "format 2"),
        ('{"schema": "preflight.report/1"}', "describes no trace"),
    ],
)
def test_what_cannot_be_used_is_refused(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / NAME).write_text(content)
    with pytest.raises(TraceError, match=said):
        read_run(tmp_path)


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    (tmp_path / NAME / "inside").write_text("")
    with pytest.raises(TraceError, match="cannot be written"):
        write_run(tmp_path, RUN)
    assert [path.name for path in tmp_path.iterdir()] == [NAME]
