"""What is said begins a line of its own, also where a progress bar has left the last one open."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from preflight.monitor.live import remarks

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="the end of an open file is read by its name there"
)


def _said(monkeypatch: pytest.MonkeyPatch, file: Path) -> str:
    with file.open("a", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        remarks.say("GO")
        remarks.say("the trace is in t")
        monkeypatch.undo()
    return file.read_text("utf-8")


@pytest.mark.parametrize(
    ("there", "between"), [("", ""), ("epoch 1\n", ""), ("\r50%|##  |", "\n"), ("\r 50%|█", "\n"), ("a\n\n", "")]
)
def test_in_a_file(there: str, between: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "log"
    file.write_bytes(there.encode())
    said = _said(monkeypatch, file)
    assert said == there.replace("\r", "\n") + f"{between}preflight monitor: GO\npreflight monitor: the trace is in t\n"


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="there are no terminals of this kind")
def test_on_a_terminal_what_is_said_at_once_stands_together(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, terminal = os.openpty()
    with os.fdopen(terminal, "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(remarks, "_said", float("-inf"))
        remarks.say("GO")
        remarks.say("the trace is in t")
        monkeypatch.undo()
        shown = b""
        while shown.count(b"\n") < 3:  # a terminal hands over what it has so far, in pieces where the machine is busy
            shown += os.read(screen, 4096)
    os.close(screen)
    assert shown.decode().splitlines() == ["", "preflight monitor: GO", "preflight monitor: the trace is in t"]


def test_in_a_pipe_nothing_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        remarks.say("GO")
        monkeypatch.undo()
    with os.fdopen(reading, encoding="utf-8") as stream:
        assert stream.read() == "preflight monitor: GO\n"


def test_where_there_is_no_stderr_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    remarks.say("GO")
