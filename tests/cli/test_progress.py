"""The line that tells how far the work is: on a terminal, after a second, and gone at the end."""

from __future__ import annotations

import io
import sys

import pytest

from preflight.cli.main import main
from preflight.cli.parts import progress
from preflight.cli.parts.writing import Writing

SEARCH = ["plan", "0.125", "16", "--gpus", "4", "--gpu", "h100", "--search"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def seen(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, *more: str) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "AFTER_SECONDS", 0.0)
    monkeypatch.setattr(progress, "EVERY_SECONDS", 0.0)
    assert main([*SEARCH, *more]) == 0
    return stream.getvalue()


def test_a_search_tells_on_a_terminal_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    text = seen(monkeypatch, Terminal())
    told = [part.strip() for part in text.split("\r") if part.strip()]
    assert told[0].startswith("0 layouts evaluated; ddp, 1 of ")
    assert "the finalists are timed again" in told[-1]
    counts = [int(part.split()[0].replace(",", "")) for part in told]
    assert counts == sorted(counts)
    # What stood there is wiped out, so that the report begins on an empty line.
    assert text.endswith("\r")
    assert not text.rsplit("\r", 2)[-2].strip()


@pytest.mark.parametrize("more", [(), ("--quiet",)])
def test_a_pipe_and_a_quiet_terminal_see_nothing(monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]) -> None:
    assert seen(monkeypatch, Terminal() if more else io.StringIO(), *more) == ""


def test_work_that_is_done_within_a_second_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "AFTER_SECONDS", 3600.0)
    with progress.following(Writing(format="text")) as say:
        assert say is not None
        say("halfway")
    assert stream.getvalue() == ""
