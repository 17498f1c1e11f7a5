"""Trials from tables, from logs, and made by the program itself."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from preflight.errors import InputError
from preflight.investigate.verify.running import order_of, run_once
from preflight.investigate.verify.trials import read_trials


def test_a_table_with_both_sides(tmp_path: Path) -> None:
    table = tmp_path / "trials.csv"
    table.write_text(
        "side,order,outcome,steps,mfu\nbefore,1,crash,120,0.4\nafter,2,ok,500,0.41\nafter,3,hang,50,\nafter,4,infra,,\n"
    )
    (before,) = read_trials([str(table)], "before")
    after = read_trials([str(table)], "after")
    assert (before.outcome, before.steps, before.order, before.series) == ("fail", 120.0, 1.0, {"mfu": [0.4]})
    assert [one.outcome for one in after] == ["pass", "timeout", "infra"]


def test_objects_with_series_and_exit_codes(tmp_path: Path) -> None:
    table = tmp_path / "after.json"
    rows = [{"exit_code": 0, "metrics": {"seconds": [1.0, 1.1, None]}}, {"exit_code": 137, "signature": "oom.killed"}]
    table.write_text(json.dumps({"trials": rows}))
    good, bad = read_trials([str(table)], "after")
    assert (good.outcome, good.series) == ("pass", {"seconds": [1.0, 1.1]})
    assert (bad.outcome, bad.what) == ("fail", ("oom.killed",))


def test_words_that_are_no_outcome_are_refused(tmp_path: Path) -> None:
    table = tmp_path / "after.csv"
    table.write_text("outcome\nperhaps\n")
    with pytest.raises(InputError):
        read_trials([str(table)], "after")
    with pytest.raises(InputError):
        read_trials([str(tmp_path / "nowhere")], "after")


def test_the_logs_of_a_run_are_one_trial(tmp_path: Path) -> None:
    crashed, good = tmp_path / "crashed.log", tmp_path / "good.log"
    steps = "".join(f"step {i} loss {2 - i / 1000:.4f} time 0.5\n" for i in range(1, 101))
    error = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\nValueError: bad shape of x\n'
    crashed.write_text(steps + error)
    good.write_text(steps)
    (bad,) = read_trials([str(crashed)], "before")
    (fine,) = read_trials([str(good)], "after")
    assert (bad.outcome, bad.steps) == ("fail", 100.0)
    assert fine.outcome in ("pass", "infra")
    assert fine.series["loss"][0] == pytest.approx(1.999)


def test_sides_take_turns() -> None:
    assert list(order_of(2)) == ["before", "after", "after", "before"]


def test_a_trial_ends_at_its_deadline_with_all_that_it_started(tmp_path: Path) -> None:
    begun = time.monotonic()
    trial = run_once("sleep 60 & sleep 60", str(tmp_path / "log"), 0.5, 1)
    assert trial.outcome == "timeout"
    assert time.monotonic() - begun < 30
    failed = run_once(f"{sys.executable} -c 'raise SystemExit(3)'", str(tmp_path / "log"), 30, 2)
    assert (failed.outcome, failed.what) == ("fail", ("exit-3",))
    assert run_once("no-such-program-here", str(tmp_path / "log"), 30, 3).outcome == "infra"


def test_the_command_makes_trials_and_answers_by_its_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from preflight.cli.main import main

    bad, good = f"{sys.executable} -c 'raise SystemExit(1)'", f"{sys.executable} -c pass"
    line = ["investigate", "verify", "--run-before", bad, "--run-after", good, "-n", "2", "--rate", "1", "--quiet"]
    assert main([*line, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["verification"]
    assert (found["status"], found["problem"]["verdict"]) == ("FIXED", "gone")
    assert found["problem"]["before"]["failed"] == 2
    # Nothing that failed has a time to compare.
    assert main([*line, "--metric", "wall_seconds:lower:90%"]) == 3
    assert "INCONCLUSIVE" in capsys.readouterr().out
    assert main(["investigate", "verify"]) == 2
    # A problem that nothing is called would be absent for ever.
    capsys.readouterr()
    assert main([*line, "--problem", "netwrok"]) == 2
    assert "did you mean network?" in capsys.readouterr().err
    assert main([*line, "--problem", "exit-1", "--format", "json"]) == 0
