"""Recordings are found where they are left, the newest first, each with how it stands."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from preflight.monitor.dashboard.recordings import is_trace, recordings
from preflight.monitor.recording import HOME
from preflight.monitor.trace.run_file import write_run
from preflight.vocabulary.trace import RecordedRun


def recording(folder: Path, **said: Any) -> Path:
    folder.mkdir(parents=True)
    write_run(folder, RecordedRun(**{"program": "train.py", "host": socket.gethostname(), **said}))
    return folder


@pytest.fixture(scope="module")
def dead() -> int:
    """The number of a process that is gone."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_they_are_found_beside_each_other_and_where_the_monitor_leaves_them(tmp_path: Path) -> None:
    recording(tmp_path / HOME / "train-1", started=100.0, ended=200.0, exit_code=0)
    recording(tmp_path / HOME / "train-2", started=300.0, ended=400.0, exit_code=1)
    recording(tmp_path / "trace", started=200.0, ended=250.0, exit_code=0)
    (tmp_path / "src").mkdir()
    (tmp_path / "run.json").write_text('{"schema": "of.something/1"}')
    found = recordings(tmp_path)
    assert [one.id for one in found] == [".preflight/monitor/train-2", "trace", ".preflight/monitor/train-1"]
    assert [one.name for one in found] == ["train-2", "trace", "train-1"]
    assert [one.id for one in recordings(tmp_path / HOME)] == ["train-2", "train-1"]
    assert [one.id for one in recordings(tmp_path / ".preflight")] == ["monitor/train-2", "monitor/train-1"]
    assert [(one.id, one.name) for one in recordings(tmp_path / "trace")] == [(".", "trace")]
    assert recordings(tmp_path / "src") == recordings(tmp_path / "nothing") == []


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ({"ended": 2.0, "exit_code": 0}, "finished"),
        ({"ended": 2.0, "exit_code": 3}, "failed"),
        ({"ended": 2.0, "exit_code": 137}, "killed"),
        ({"ended": 2.0}, "ended"),
        ({"launcher": os.getpid()}, "running"),
    ],
)
def test_how_it_stands_is_said_by_its_run_file(tmp_path: Path, said: dict[str, Any], state: str) -> None:
    recording(tmp_path / "one", started=1.0, **said)
    assert [one.state for one in recordings(tmp_path)] == [state]


@pytest.mark.skipif(sys.platform == "win32", reason="processes are asked for by a signal")
def test_one_whose_launcher_is_gone_has_stopped(tmp_path: Path, dead: int) -> None:
    recording(tmp_path / "one", started=1.0, launcher=dead)
    assert [one.state for one in recordings(tmp_path)] == ["stopped"]


def test_one_of_another_machine_runs_while_its_files_grow(tmp_path: Path) -> None:
    folder = recording(tmp_path / "one", started=1.0, launcher=1, host="elsewhere")
    assert [one.state for one in recordings(tmp_path)] == ["stopped"]
    segment = folder / "rank-00000.7.trace"
    segment.write_bytes(b"")
    assert [one.state for one in recordings(tmp_path)] == ["running"]
    os.utime(segment, (1.0, 1.0))
    assert [one.state for one in recordings(tmp_path)] == ["stopped"]


def test_a_trace_without_a_run_file_is_one(tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    assert not is_trace(tmp_path / "bare")
    (tmp_path / "bare" / "rank-00000.7.trace").write_bytes(b"")
    assert is_trace(tmp_path / "bare")
    (found,) = recordings(tmp_path)
    assert found.program is None
    assert found.state == "stopped"
