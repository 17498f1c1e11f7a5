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
        ('[{"seconds": 1.0, "allocated_bytes": "80 GB"}]', "a positive number of bytes"),
        ('[{"seconds": 1.0, "allocated_bytes": 9e9, "reserved_bytes": 8e9}]', "reserves less than it allocates"),
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


def _trace(folder: Path, batches: int, seconds: float, held: tuple[int, int] | None = None, host: bool = False) -> Path:
    """A recorded run of eight steps, each of so many batches that take so long; what its allocator or its host told at the end."""
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
    if held is not None:
        row = {"q": 10**6 - 1, "t": int(8 * batches * seconds * 1e9) - 1, "i": 8 * batches - 1, "s": 8}
        row |= {"device": "cuda:0", "allocated": 1, "reserved": 1, "peak": held[0], "peak_reserved": held[1]}
        rows.append(("memory", tuple((dict.fromkeys(columns["memory"]) | row).values())))
    for step in range(2 if host else 0):
        row = {"q": 10**6 - 3 + step, "t": step, "i": step, "s": step, "device": "host", "resident": 10**9}
        rows.append(("memory", tuple((dict.fromkeys(columns["memory"]) | row).values())))
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


KEPT = ["none" if word == "full" else word for word in RUN]
"""A run whose activations are most of its peak."""


def _memory(call: Callable[..., Call], *words: str) -> dict[str, float]:
    told = json.loads(call(*KEPT, *words, "--format", "json")[1])["memory"]
    return {name: told[name]["mid"] for name in ("peak_bytes", "reserved_bytes")} | told["breakdown"]


@pytest.mark.parametrize("more", [-0.1, 0.1])
def test_the_memory_of_a_recorded_run_moves_the_plan(call: Callable[..., Call], tmp_path: Path, more: float) -> None:
    before = _memory(call)
    peak = int(before["peak_bytes"] + more * before["activations"])
    trace, target = _trace(tmp_path / "trace", 1, 20.0, (peak, int(peak * 1.02))), tmp_path / "calibration.json"
    status, _, err = call("calibrate", str(trace), *KEPT, "-o", str(target))
    assert status == 0, err
    assert "of the activations, 2." in err
    after = _memory(call, "--calibration", str(target))
    # What is arithmetic stays; what code decides has moved the most of the way to what was measured, and not beyond.
    assert after["optimizer_states"] == before["optimizer_states"]
    way = (after["peak_bytes"] - before["peak_bytes"]) / (peak - before["peak_bytes"])
    assert 0.9 < way <= 1.0
    assert after["reserved_bytes"] / after["peak_bytes"] == pytest.approx(1.025, abs=0.005)
    # Of another model nothing was measured.
    other = [word if word != "llama-3-8b" else "llama-2-13b" for word in KEPT]
    told = [json.loads(call(*other, *words, "--format", "json")[1]) for words in ((), ("--calibration", str(target)))]
    assert told[0]["memory"] == told[1]["memory"]
    assert any("has measured other models" in note for note in told[1]["notes"])


def test_memory_that_is_not_of_the_run_is_left_out(call: Callable[..., Call], tmp_path: Path) -> None:
    trace, target = _trace(tmp_path / "trace", 1, 20.0, (10**9, 10**9)), tmp_path / "calibration.json"
    status, _, err = call("calibrate", str(trace), *RUN, "-o", str(target))
    assert status == 0
    assert "954 MiB were allocated at most, where the run that the options describe takes" in err
    assert json.loads(target.read_text())["memory"] == []
    bare = call("calibrate", str(_trace(tmp_path / "bare", 1, 20.0)), *RUN, "-o", str(target))[2]
    assert "holds no memory of a GPU" in bare


def test_a_run_without_a_gpu_says_nothing_of_the_steps_of_one(call: Callable[..., Call], tmp_path: Path) -> None:
    status, _, err = call("calibrate", str(_trace(tmp_path / "trace", 1, 20.0, host=True)), *RUN)
    assert status == 2
    assert "was recorded without a GPU" in err


def test_a_folder_that_is_no_trace_or_too_short_is_refused(call: Callable[..., Call], tmp_path: Path) -> None:
    assert "holds no trace" in call("calibrate", str(tmp_path), *RUN)[2]
    (tmp_path / "short").mkdir()
    begin = dict.fromkeys(TABLES["begin"]) | {"q": 0, "t": 0, "role": "trainer", "rank": 0, "world": 1, "pid": 7}
    content = block(payload([("begin", tuple(begin.values()))]))
    (tmp_path / "short" / "rank-00000.7.trace").write_bytes(content)
    status, _, err = call("calibrate", str(tmp_path / "short"), *RUN)
    assert status == 2
    assert "too few steps" in err
