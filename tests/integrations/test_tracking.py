"""What trackers are told while a training goes on, and that none of them can hurt it."""

from __future__ import annotations

import sys
import threading
import time
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from preflight.errors import InputError, UsageError
from preflight.integrations.needed import needed
from preflight.integrations.trackers import made
from preflight.integrations.trackers.wandb import WandB
from preflight.integrations.watching import Watching
from preflight.monitor.live.alerts import LinesFile
from preflight.monitor.live.telling import WAITING
from preflight.monitor.live.tracking import Alarm, Tracking
from preflight.vocabulary.finding import Location
from preflight.vocabulary.invariant import Violation
from preflight.vocabulary.report import SCHEMA, Report, Tool


class Recorder:
    """What is asked of the recorder."""

    def __init__(self) -> None:
        self.step, self.spent, self.torch = 0, 0, None
        self.at_turn: list[Any] = []


class Kept:
    """A tracker that keeps what it is told."""

    name = "kept"

    def __init__(self) -> None:
        self.curves: list[tuple[int, dict[str, float]]] = []
        self.alarms: list[Alarm] = []
        self.ended: list[str] = []

    def figures(self, step: int, values: Mapping[str, float]) -> None:
        self.curves.append((step, dict(values)))

    def alarm(self, alarm: Alarm) -> None:
        self.alarms.append(alarm)

    def end(self, step: int, report: Report, alarms: Sequence[Alarm]) -> None:
        self.ended.append(report.verdict)


class Broken(Kept):
    """A tracker whose server is gone."""

    name = "broken"

    def figures(self, step: int, values: Mapping[str, float]) -> None:
        self.curves.append((step, dict(values)))
        raise ConnectionError("gone")


def settled(tracking: Tracking) -> None:
    """Wait until every tracker has taken what it was told."""
    until = time.monotonic() + 60
    while not all(one.idle for one in tracking.tellers):
        assert time.monotonic() < until
        time.sleep(0.001)


def violation(relation: str, step: int, group: int, path: str | None = None) -> Violation:
    return Violation(
        rule=relation, code=relation, severity="error", confidence="certain", message=f"{relation} does not hold",
        location=Location(path=path, line=2 if path else None), relation=relation, invariant=relation, first_step=step,
        group=group,
    )  # fmt: skip


def test_alarms_and_figures_are_told_once_and_a_tracker_that_fails_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\nloss.backward()\n")
    recorder, kept, broken = Recorder(), Kept(), Broken()
    file = tmp_path / "alerts.jsonl"
    tracking = Tracking(recorder, file, every=0)
    for one in (broken, kept):
        tracking.add(one)
    (look,) = recorder.at_turn
    look()  # there is no file yet
    settled(tracking)
    alerts = LinesFile(file, "run")
    first = violation("gradients-cleared", 3, 1, str(script))
    alerts.tell([first])
    alerts.close()
    with file.open("ab") as stream:
        stream.write(b'{"half')  # a line that is being written
    recorder.step, recorder.spent = 4, 10**6
    look()
    look()
    settled(tracking)
    assert kept.alarms == [
        Alarm(
            step=3, severity="error", relation="gradients-cleared", sentence="gradients-cleared does not hold",
            place=f"{script}:2", code="loss.backward()",
        )
    ]  # fmt: skip
    assert [step for step, _ in kept.curves] == [0, 4, 4]
    told = kept.curves[1][1]
    assert (told["errors"], told["warnings"], told["steps"]) == (1, 0, 4)
    assert told["overhead_percent"] > 0
    assert told["step_seconds"] > 0
    assert len(broken.curves) == 1
    assert capsys.readouterr().err == "preflight monitor: broken takes no figures: ConnectionError: gone\n"
    tracking.stop()
    later = violation("loss-finite", 9, 2)
    tracking.end(
        Report(
            schema=SCHEMA, command="monitor check", tool=Tool("preflight", "0"), verdict="NO-GO",
            violations=(first, msgspec.structs.replace(first, relation="of-the-same"), later),
        )
    )  # fmt: skip
    tracking.close()
    assert [one.relation for one in kept.alarms] == ["gradients-cleared", "loss-finite"]
    assert kept.curves[-1][1]["errors"] == 2
    assert kept.ended == ["NO-GO"]
    assert broken.ended == []


def test_two_of_a_kind_are_told_where_somebody_named_both(tmp_path: Path) -> None:
    tracking = Tracking(Recorder(), tmp_path / "alerts.jsonl")
    named, other, found = Kept(), Kept(), Kept()
    tracking.add(named)
    tracking.add(other)
    tracking.add(found, found=True)
    assert [one.tracker for one in tracking.tellers] == [named, other]
    tracking.close()


def test_the_start_of_a_program_is_no_part_of_its_first_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("preflight.monitor.live.tracking.time", types.SimpleNamespace(monotonic=lambda: clock[0]))
    recorder, kept = Recorder(), Kept()
    tracking = Tracking(recorder, tmp_path / "alerts.jsonl", every=5.0)
    tracking.add(kept)
    for clock[0], recorder.step in ((130.0, 1), (131.0, 2), (132.0, 3), (135.0, 6), (136.0, 7)):
        tracking.look()
    settled(tracking)
    assert [(step, values.get("step_seconds")) for step, values in kept.curves] == [(1, None), (6, 1.0)]
    tracking.stop()
    assert tracking._last_values["step_seconds"] == 1.0
    monkeypatch.undo()
    tracking.close()


def test_only_the_programs_step_time_counts_for_the_budget(tmp_path: Path) -> None:
    recorder = Recorder()
    tracking = Tracking(recorder, tmp_path / "none", every=0)
    tracking.add(Kept())
    recorder.at_turn[0]()
    assert recorder.spent < 0, "what telling took is taken off what recording took"
    tracking.stop()
    tracking.close()


class Hangs(Kept):
    """A tracker whose server does not answer until it is let go."""

    name = "hangs"

    def __init__(self) -> None:
        super().__init__()
        self.let_go = threading.Event()

    def figures(self, step: int, values: Mapping[str, float]) -> None:
        self.let_go.wait(60)
        super().figures(step, values)


def test_a_tracker_that_hangs_holds_up_neither_the_training_nor_another_tracker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("preflight.monitor.live.tracking.PATIENCE", 0.05)
    recorder, kept, hangs = Recorder(), Kept(), Hangs()
    tracking = Tracking(recorder, tmp_path / "none", every=0)
    tracking.add(hangs)
    tracking.add(kept)
    teller = tracking.tellers[0]
    for _ in range(WAITING + 4):
        recorder.at_turn[0]()
        while not tracking.tellers[1].idle:
            time.sleep(0.001)
    assert len(kept.curves) == WAITING + 4
    assert not hangs.curves
    assert teller.dropped in (3, 4), "one is under way, if its thread has come to it before the queue was full"
    tracking.close()
    assert "hangs is too slow and has not taken everything" in capsys.readouterr().err
    hangs.let_go.set()


class Opens(Kept):
    """A tracker that has something to open and to close."""

    name = "opens"

    def __init__(self, fails: str = "") -> None:
        super().__init__()
        self.fails = fails
        self.open_now = 0

    def open(self) -> None:
        if self.fails == "open":
            raise OSError("Address already in use")
        self.open_now += 1

    def figures(self, step: int, values: Mapping[str, float]) -> None:
        if self.fails == "figures":
            raise SystemExit(3)

    def close(self) -> None:
        self.open_now -= 1


@pytest.mark.parametrize("fails", ["", "open", "figures"])
def test_what_a_tracker_opens_is_closed_once_also_when_it_fails(
    fails: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder, opens = Recorder(), Opens(fails)
    assert opens.open_now == 0
    tracking = Tracking(recorder, tmp_path / "none", every=0)
    tracking.add(opens)
    assert opens.open_now == (fails != "open")
    for look in recorder.at_turn:
        look()
    settled(tracking)
    assert opens.open_now == (not fails)
    tracking.close()
    assert opens.open_now == 0
    assert capsys.readouterr().err.count("opens takes no figures: ") == bool(fails)


def test_a_tracker_that_cannot_be_made_leaves_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    kept = Kept()

    def fails() -> Kept:
        raise RuntimeError("no server")

    assert made([("first", fails), ("none", lambda: None), ("second", lambda: kept)]) == [kept]
    assert capsys.readouterr().err == "preflight monitor: first takes no figures: RuntimeError: no server\n"


def test_the_title_of_an_alert_is_as_short_as_wandb_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, str]] = []
    level = types.SimpleNamespace(ERROR="ERROR", WARN="WARN")
    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(AlertLevel=level))
    run = types.SimpleNamespace(
        define_metric=lambda *words, **more: None, alert=lambda title, text, level: told.append((title, text))
    )
    tracker = WandB(run)
    for sentence in ("short", "x" * 63, "a long sentence of words " * 5, "x" * 200):
        tracker.alarm(Alarm(step=3, severity="error", relation="r", sentence=sentence, place="a.py:1", code="f()"))
        title, text = told[-1]
        assert len(title) < 64
        assert (title == sentence) == (len(sentence) < 64)
        assert text == f"{sentence}\nsince step 3, a.py:1: f()"


def test_a_package_that_is_missing_is_named_with_its_extra() -> None:
    with pytest.raises(UsageError, match="nobodys_trainer is not installed") as raised:
        needed("nobodys_trainer.callbacks", "trainer")
    assert raised.value.hint == "pip install 'preflight-torch[trainer]'"
    assert needed("json.decoder", "none").__name__ == "json.decoder"


def test_an_invariants_file_that_cannot_be_read_is_told_when_the_callback_is_made(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        Watching("trace", invariants=tmp_path / "none.jsonl")


def test_a_process_that_is_recorded_already_is_left_to_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PREFLIGHT_MONITOR", "{}")
    watching = Watching(tmp_path / "trace")
    watching.begin()
    watching.end()
    assert not (tmp_path / "trace").exists()
    assert watching.report is None
    assert "is recorded already" in capsys.readouterr().err
