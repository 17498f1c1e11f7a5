"""Calibrating on files of one's own, and planning with what came of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from preflight.cli.main import main

RUN = ["--model", "llama-3-8b", "--gpus", "8", "--gpu", "h100", "--batch", "256", "--sequence-length", "4096",
       "--strategy", "fsdp", "--precision", "bf16", "--recompute", "full", "--micro-batch", "1"]  # fmt: skip


Call = tuple[int, str, str]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., Call]:
    def run(*words: str) -> Call:
        status = main(["plan", *words])
        seen = capsys.readouterr()
        return status, seen.out, seen.err

    return run


def _seconds(call: Callable[..., Call], *words: str) -> float:
    found: float = json.loads(call(*RUN, *words, "--format", "json")[1])["step"]["seconds"]["mid"]
    return found


def test_a_log_moves_the_plan_towards_what_it_measured(call: Callable[..., Call], tmp_path: Path) -> None:
    log, target = tmp_path / "train.log", tmp_path / "calibration.json"
    log.write_text("\n".join(f"step: {step} step_time: 20.0" for step in range(6)))
    before = _seconds(call)
    status, _, err = call("calibrate", str(log), *RUN, "-o", str(target))
    assert status == 0, err
    after = _seconds(call, "--calibration", str(target))
    assert abs(after - 20.0) < abs(before - 20.0)
    assert after == pytest.approx(20.0, rel=0.1)


def test_rows_say_what_an_option_would(call: Callable[..., Call], tmp_path: Path) -> None:
    rows, target = tmp_path / "rows.json", tmp_path / "calibration.json"
    rows.write_text(json.dumps([{"run.micro_batch": 2, "seconds": 18.0}, {"tokens_per_gpu": 7000}]))
    assert call("calibrate", str(rows), *RUN, "-o", str(target))[0] == 0
    assert json.loads(target.read_text())["rows"] == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"run.micro_batsh": 2, "seconds": 1.0}]', "did you mean run.micro_batch"),
        ('[{"run.micro_batch": 2}]', "needs one of seconds"),
        ('[{"seconds": -1.0}]', "needs one of seconds"),
        ("[", "is not JSON"),
    ],
)
def test_wrong_rows_are_named(call: Callable[..., Call], tmp_path: Path, text: str, message: str) -> None:
    rows = tmp_path / "rows.json"
    rows.write_text(text)
    status, out, err = call("calibrate", str(rows), *RUN, "-o", str(tmp_path / "out.json"))
    assert status == 2
    assert message in out + err
    assert not (tmp_path / "out.json").exists()


def test_a_file_that_is_no_calibration_is_refused(call: Callable[..., Call], tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text("{}")
    status, out, err = call(*RUN, "--calibration", str(other))
    assert status == 2
    assert "is no calibration" in out + err


def test_validation_without_fits_is_a_table(call: Callable[..., Call]) -> None:
    status, out, err = call("validate", "--catalog-alone", "--format", "markdown")
    assert status == 0
    assert "| catalog alone | llm-foundry |" in out + err
    assert "## Memory" in out + err
