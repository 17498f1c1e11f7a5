"""Calibrating on files of one's own, and planning with what came of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from preflight.cli.main import main
from preflight.monitor.collect.columns import TABLES
from preflight.monitor.collect.encode import block, payload

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


def _trace(folder: Path, batches: int, seconds: float) -> Path:
    """A recorded run of eight steps, each of so many batches that take so long."""
    folder.mkdir()
    columns = {kind: list(names) for kind, names in TABLES.items()}
    begin = dict.fromkeys(columns["begin"]) | {"q": 0, "t": 0, "role": "trainer", "rank": 0, "world": 1, "pid": 7}
    rows: list[tuple[str, tuple[object, ...]]] = [("begin", tuple(begin.values()))]
    for i in range(8 * batches):
        step, t = i // batches, int(i * seconds * 1e9)
        names = ["forward", "backward", *(["step"] if i % batches == batches - 1 else [])]
        for at, name in enumerate(names):
            call = {"q": 10 * i + at + 1, "e": 10 * i + at + 1, "t": t + at, "d": 1, "i": i, "s": step, "name": name}
            call |= {"object": "optimizer0:SGD" if name == "step" else "model", "parent": -1, "thread": 1}
            rows.append(("call", tuple((dict.fromkeys(columns["call"]) | call).values())))
        rows.append(("iteration", (10 * i + 9, t + 9, i, step)))
    end = {"q": 10**6, "t": int(8 * batches * seconds * 1e9), "i": 8 * batches, "s": 8, "how": "exit", "code": 0}
    rows.append(("end", tuple((dict.fromkeys(columns["end"]) | end).values())))
    (folder / "rank-00000.7.trace").write_bytes(block(payload(rows)))
    return folder


@pytest.mark.parametrize(("batches", "seconds"), [(1, 20.0), (4, 5.0)])
def test_a_recorded_run_moves_the_plan_towards_what_it_took(
    call: Callable[..., Call], tmp_path: Path, batches: int, seconds: float
) -> None:
    trace, target = _trace(tmp_path / "trace", batches, seconds), tmp_path / "calibration.json"
    status, _, err = call("calibrate", str(trace), *RUN, "-o", str(target))
    assert status == 0, err
    assert _seconds(call, "--calibration", str(target)) == pytest.approx(20.0, rel=0.1)


def test_a_folder_that_is_no_trace_or_too_short_is_refused(call: Callable[..., Call], tmp_path: Path) -> None:
    assert "holds no trace" in call("calibrate", str(tmp_path), *RUN)[2]
    (tmp_path / "short").mkdir()
    begin = dict.fromkeys(TABLES["begin"]) | {"q": 0, "t": 0, "role": "trainer", "rank": 0, "world": 1, "pid": 7}
    content = block(payload([("begin", tuple(begin.values()))]))
    (tmp_path / "short" / "rank-00000.7.trace").write_bytes(content)
    status, _, err = call("calibrate", str(tmp_path / "short"), *RUN)
    assert status == 2
    assert "too few steps" in err
