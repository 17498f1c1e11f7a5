"""What stands in the way of a recording is said, and never gets into the training."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import preflight
from preflight.integrations.torchtitan import monitored
from preflight.integrations.watching import Watching
from preflight.monitor.follow import Follower
from preflight.monitor.live import part as part_module
from preflight.monitor.live.part import is_recorded
from preflight.monitor.trace.run_file import read_run

pytest.importorskip("torch", reason="needs torch")

pytestmark = pytest.mark.torch


class Trainer:
    """A trainer whose recording goes away under it."""

    folder: Path

    def train(self, error: str | None = None) -> str:
        shutil.rmtree(self.folder)
        if error:
            raise ValueError(error)
        return "trained"


def test_a_folder_that_cannot_be_made_costs_the_recording_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    watching = Watching(tmp_path / "file" / "trace", watch=False)
    watching.begin()
    watching.find()
    watching.end()
    assert watching.report is None
    assert not is_recorded()
    assert capsys.readouterr().err.count("preflight monitor: the training is not recorded: ") == 1


def test_a_second_training_into_the_same_folder_takes_the_next(tmp_path: Path) -> None:
    watching = Watching(tmp_path / "trace", watch=False, trackers=[])
    folders = []
    for _ in range(2):
        watching.begin()
        watching.end()
        folders.append(watching.folder)
    assert folders == [tmp_path / "trace", tmp_path / "trace-2"]


def test_a_folder_that_is_gone_at_the_end_hides_neither_a_result_nor_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Mine(Trainer):
        folder = tmp_path / "trace"

    trainer = monitored(Mine, Mine.folder, watch=False, trackers=[])()
    assert trainer.train() == "trained"
    with pytest.raises(ValueError, match="mine"):
        trainer.train("mine")
    with pytest.raises(ValueError, match="also mine"), preflight.monitoring(Mine.folder, watch=False):
        Trainer.train(trainer, "also mine")
    assert capsys.readouterr().err.count(f"preflight monitor: the recording in {Mine.folder} is not judged: ") == 3
    assert not is_recorded()


def test_a_training_that_cannot_be_judged_has_ended_nevertheless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(self: object) -> None:
        raise KeyError("mine")

    monkeypatch.setattr(Follower, "check", fails)
    watching = Watching(tmp_path / "trace", watch=False, trackers=[])
    watching.begin()
    watching.end(ValueError("theirs"))
    run = read_run(tmp_path / "trace")
    assert run is not None
    assert run.ended is not None
    assert run.exit_code == 1
    assert watching.report is None
    assert "is not judged: KeyError: 'mine'" in capsys.readouterr().err


def test_what_was_put_in_place_is_taken_away_when_the_begin_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Process:
        killed = False

        def poll(self) -> int | None:
            return -9 if self.killed else None

        def kill(self) -> None:
            self.killed = True

        def wait(self) -> None:
            assert self.killed

    process = Process()

    def fails(*words: object) -> None:
        raise MemoryError("none left")

    monkeypatch.setattr(part_module, "_watcher", lambda *words: process)
    monkeypatch.setattr(part_module, "Tracking", fails)
    Watching(tmp_path / "trace", trackers=[]).begin()
    assert process.killed
    assert not is_recorded()
    assert "the training is not recorded: MemoryError: none left" in capsys.readouterr().err
