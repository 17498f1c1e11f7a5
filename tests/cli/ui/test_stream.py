"""What a page is sent of a recording: all of it at the beginning, then what changes, until the end."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra ui is not installed")
pytest.importorskip("uvicorn", reason="the extra ui is not installed")

from preflight.cli.ui_ import feed
from preflight.monitor.library_of import general, shipped
from preflight.monitor.recording import HOME, keep
from preflight.monitor.trace.seal import seal

from .growing import Growing
from .serving import served


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "LOOK_EVERY", 0.05)


def steps_of(news: dict[str, Any], chart: str) -> list[int]:
    return next((piece["steps"] for piece in news["curves"]["pieces"] if piece["chart"] == chart), [])


def test_a_run_is_shown_from_waiting_to_its_end(tmp_path: Path) -> None:
    run = Growing(tmp_path / HOME / "train-1")
    with served(tmp_path) as server, server.stream() as stream:
        told = stream.until(lambda last: last["run"]["waiting"])
        assert told["recordings"]["shown"] == ".preflight/monitor/train-1"
        assert told["run"]["program"] == "train.py"
        assert told["run"]["state"] == "running"
        run.begin()
        run.steps(8, memory=1 << 30)
        told = stream.until(lambda last: last["figures"]["step"] == 8)
        assert told["figures"]["latest"] == {"loss": 1.0}
        assert told["figures"]["speed"]["seconds"] == pytest.approx(0.5, rel=1e-3)
        assert told["figures"]["devices"]["peak"] == 1 << 30
        assert told["figures"]["devices"]["capacity"] == 1 << 32
        assert steps_of(told, "loss") == list(range(8))
        assert told["alarms"]["shown"] == []
        assert [row["state"] for row in told["ranks"]["shown"]] == ["running"]
        run.steps(2, loss=math.nan)
        told = stream.until(lambda last: last["alarms"]["shown"])
        (alarm,) = told["alarms"]["shown"]
        assert alarm["severity"] == "error"
        assert "train.py:7" in alarm["place"]
        assert "since step 8" in alarm["place"]
        assert told["alarms"]["errors"] == 1
        run.end()
        told = stream.until(lambda last: last["run"]["over"])
        assert told["run"]["state"] == "finished"
        assert told["run"]["verdict"] == "NO-GO"
        assert told["figures"]["step"] == 10
        assert [row["state"] for row in told["ranks"]["shown"]] == ["ended"]


def test_what_is_sent_later_is_only_what_is_new(tmp_path: Path) -> None:
    run = Growing(tmp_path / "trace")
    run.begin()
    run.steps(20)
    with served(tmp_path) as server, server.stream() as stream:
        stream.until(lambda last: last["figures"]["step"] == 20)
        run.steps(1)
        told = stream.until(lambda last: last["figures"]["step"] == 21)
        assert steps_of(told, "loss") == [20]
        assert [piece["start"] for piece in told["curves"]["pieces"] if piece["chart"] == "loss"] == [20]
        assert stream.count["problem"] == 1
        with server.stream() as other:  # whoever comes again has it all
            again = other.until(lambda last: last["figures"]["step"] == 21)
            assert steps_of(again, "loss") == list(range(21))
    run.close()


def test_a_run_that_crashed_says_how(tmp_path: Path) -> None:
    run = Growing(tmp_path / "trace", world=2)
    run.begin()
    run.steps(5)
    run.end(code=1, error="ValueError: batch of 0 samples\n  in <loader>")
    with served(tmp_path) as server, server.stream() as stream:
        told = stream.until(lambda last: last["run"]["over"])
    assert told["run"]["state"] == "failed"
    assert told["run"]["said"] == "exit code 1; rank 0: ValueError: batch of 0 samples in <loader>"
    assert [(row["rank"], row["state"]) for row in told["ranks"]["shown"]] == [(0, "failed"), (1, "failed")]
    assert told["heat"]["ranks"] == [0, 1]
    assert [round(mean, 3) for mean in told["heat"]["columns"][2]] == [0.5, 1.0]
    assert told["figures"]["slowest"]["rank"] == 1


def test_the_rank_that_failed_first_is_named_and_not_one_that_lost_it(tmp_path: Path) -> None:
    run = Growing(tmp_path / "trace", world=3)
    run.begin()
    run.steps(5)
    run.fail(2, "ValueError: broken on purpose")
    run.steps(1)
    run.end(code=1, error="RuntimeError: Connection closed by peer")
    with served(tmp_path) as server, server.stream() as stream:
        told = stream.until(lambda last: last["run"]["over"])
    assert told["run"]["said"] == "exit code 1; rank 2: ValueError: broken on purpose"


def test_a_rank_that_was_killed_is_named(tmp_path: Path) -> None:
    run = Growing(tmp_path / "trace", launcher=None, host=None)
    run.begin()
    run.steps(5)
    run.close()
    with served(tmp_path) as server, server.stream() as stream:
        told = stream.until(lambda last: last["run"]["over"])
    assert told["run"]["state"] == "stopped"
    assert [row["state"] for row in told["ranks"]["shown"]] == ["stopped"]
    assert told["about"]["notes"] == []  # the table says it


def test_of_many_ranks_those_in_trouble_are_shown(tmp_path: Path) -> None:
    run = Growing(tmp_path / "trace", world=70)
    run.begin()
    run.steps(1)
    run.fall_silent(69)
    run.steps(4)
    run.end()
    with served(tmp_path) as server, server.stream() as stream:
        told = stream.until(lambda last: last["run"]["over"])
    assert len(told["ranks"]["shown"]) == 64
    assert told["ranks"]["left"] == 6
    (last,) = [row for row in told["ranks"]["shown"] if row["rank"] == 69]
    assert (last["state"], last["behind"], last["trouble"]) == ("stopped", 4, True)
    assert len(told["heat"]["ranks"]) == 64
    assert told["heat"]["left_out"] == 5  # of the one that fell silent no step time is known


def test_a_sealed_run_is_read_and_one_that_is_sealed_between_two_looks(tmp_path: Path) -> None:
    run = Growing(tmp_path / "trace")
    run.begin()
    run.steps(6)
    with served(tmp_path) as server, server.stream() as stream:
        stream.until(lambda last: last["figures"]["step"] == 6)
        run.steps(4)
        run.end()
        seal(tmp_path / "trace", broken=True)
        told = stream.until(lambda last: last["run"]["over"])
        assert told["figures"]["step"] == 10
        assert told["run"]["state"] == "finished"
    with served(tmp_path) as server, server.stream() as stream:
        told = stream.until(lambda last: last["run"]["over"])
        assert told["figures"]["step"] == 10
        assert steps_of(told, "loss") == list(range(10))


def test_a_recording_that_begins_is_found_and_another_one_can_be_asked_for(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        with server.stream() as stream:
            line = b""
            while not line.startswith(b"data: "):
                line = stream.answer.readline()
            assert b'"found":[]' in line
            Growing(tmp_path / HOME / "train-1", started=100.0, ended=101.0, exit_code=0)
            told = stream.until(lambda last: True)
            assert told["recordings"]["shown"] == ".preflight/monitor/train-1"
        Growing(tmp_path / "newer", started=200.0, ended=201.0, exit_code=0)
        with server.stream("?recording=.preflight/monitor/train-1") as stream:
            told = stream.until(lambda last: True)
            assert told["recordings"]["shown"] == ".preflight/monitor/train-1"
            assert [one["name"] for one in told["recordings"]["found"]] == ["newer", "train-1"]


def test_a_recording_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    Growing(folder, started=1.0, ended=2.0, exit_code=0)
    (folder / "rank-00000.7.trace").write_bytes(b"PFB9" + bytes(100))
    with served(tmp_path) as server, server.stream() as stream:
        told = stream.until(lambda last: last["problem"])
    assert "format 9" in told["problem"]["text"]


def test_a_run_whose_files_are_gone_for_a_moment_goes_on(tmp_path: Path) -> None:
    run = Growing(tmp_path / "trace")
    run.begin()
    run.steps(3)
    segment = tmp_path / "trace" / "rank-00000.100.trace"
    with served(tmp_path) as server, server.stream() as stream:
        stream.until(lambda last: last["figures"]["step"] == 3)
        segment.rename(tmp_path / "elsewhere")
        stream.until(lambda last: last["run"]["waiting"])
        (tmp_path / "elsewhere").rename(segment)
        run.steps(2)
        told = stream.until(lambda last: last["figures"]["step"] == 5)
        assert told["problem"] is None
        assert told["run"]["over"] is False
    run.close()


def test_what_a_trace_says_is_data(tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)>\x1b[31m"
    Growing(tmp_path / "trace", program=evil, arguments=("python", evil, "--token", "hunter2hunter2"), started=1.0)
    with served(tmp_path) as server, server.stream() as stream:
        told = stream.until(lambda last: True)
    assert "\x1b" not in told["run"]["program"]
    assert "hunter2" not in told["run"]["command"]


def test_a_recording_is_on_the_page_before_it_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    growing = Growing(tmp_path / "trace", world=2)
    growing.begin()
    growing.steps(3)
    growing.end()
    frames: list[dict[str, Any]] = []
    publish = feed.Feed._publish

    def kept(one: feed.Feed, sections: Any, *more: Any) -> None:
        frames.append(dict(sections))
        publish(one, sections, *more)

    monkeypatch.setattr(feed.Feed, "_publish", kept)
    feed.Feed(tmp_path / "trace", ()).look()
    first, *_, last = frames
    assert (first["run"]["reading"], last["run"]["reading"]) == (True, False)
    # Who has not told how it ended is no trouble as long as there is more to read.
    assert [row for row in first["ranks"]["shown"] if row["trouble"]] == []
    assert [row["state"] for row in last["ranks"]["shown"]] == ["ended", "ended"]


@pytest.mark.parametrize(("kept", "alarms"), [(True, 0), (False, 1)])
def test_a_run_is_judged_by_what_it_was_started_with(tmp_path: Path, kept: bool, alarms: int) -> None:
    growing = Growing(tmp_path / "trace")
    growing.begin()
    keep(tmp_path / "trace", [general("gradients-cleared")])
    growing.steps(2)
    growing.steps(2, loss=math.nan)
    growing.end()
    one = feed.Feed(tmp_path / "trace", shipped(), kept)
    one.look()
    assert one.frame is not None
    assert len(json.loads(one.frame.sections["alarms"])["shown"]) == alarms
