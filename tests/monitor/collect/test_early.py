"""What is held of a process that is still being set up."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from tests.monitor.collect.recording import Kept  # noqa: E402

from preflight.monitor.collect import early, recorder  # noqa: E402
from preflight.monitor.collect.settings import Settings  # noqa: E402


def test_a_module_that_trains_while_its_process_is_set_up_is_recorded_as_it_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recorder, "preparing", lambda: True)
    monkeypatch.setattr(early, "MOST", 3)
    kept = Kept()
    made = recorder.Recorder(Settings(""), lambda _: kept)
    for number in range(3):
        made.scalar("loss", "", number)
    assert kept.table("scalar") == []  # it may be a worker, of which this tells nothing
    for number in range(3, 6):
        made.scalar("loss", "", number)
    assert [row["value"] for row in kept.table("scalar")] == [*range(6)]


@pytest.mark.parametrize("forked", [False, True])
def test_what_a_process_did_that_ends_while_it_is_set_up_is_kept(monkeypatch: pytest.MonkeyPatch, forked: bool) -> None:
    monkeypatch.setattr(recorder, "preparing", lambda: True)
    kept = Kept()
    made = recorder.Recorder(Settings(""), lambda _: kept)
    if forked:
        made.after_fork()  # as a child of a server that forks is
    made.scalar("loss", "", 1.0)
    made.close("exception", 1, "RuntimeError: its module failed")
    assert [row["value"] for row in kept.table("scalar")] == [1.0]
    assert [row["error"] for row in kept.table("end")] == ["RuntimeError: its module failed"]


def test_a_process_of_which_nothing_was_held_gets_no_file_while_it_is_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "preparing", lambda: True)
    kept = Kept()
    made = recorder.Recorder(Settings(""), lambda _: kept)
    made.close("exit", 0, None)
    assert kept.rows == {}
