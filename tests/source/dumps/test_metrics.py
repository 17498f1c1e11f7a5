"""Metric files of every format give the same steps."""

from __future__ import annotations

import json
import math
import struct
from itertools import pairwise
from pathlib import Path

import pytest

from preflight.source.dumps import metrics_csv, metrics_lines, mlflow_metrics, tensorboard_events, trainer_state
from preflight.source.dumps.metric_names import normal, telling, time_of
from preflight.source.dumps.opening import format_of, read_dump
from preflight.source.dumps.part import Part
from preflight.source.logs import one_file
from preflight.source.logs.read import read_logs
from preflight.vocabulary.log import LogFile


def part(path: str, content: bytes) -> Part:
    module = format_of(path, content[:8192])
    assert module is not None, path
    return read_dump(module, content, LogFile(index=3, path=path, kind="metrics"))


def test_names_of_many_programs_mean_the_same() -> None:
    assert normal("train/loss") == ("loss", 1.0)
    assert normal("run-7 - train/loss") == ("loss", 1.0)
    assert normal("lm loss") == ("loss", 1.0)
    assert normal("eval_loss") == ("val_loss", 1.0)
    assert normal("step_time_ms") == ("seconds", 1e-3)
    assert normal("perf/data_time") == ("data_seconds", 1.0)
    assert normal("train_tokens_per_second") == ("tokens_per_second", 1.0)
    assert normal("Reward/Mean") == ("Reward/Mean", 1.0)


def test_times_are_told_by_their_size_or_as_dates() -> None:
    assert time_of(1_700_000_000.5) == 1_700_000_000.5
    assert time_of("1700000000500") == 1_700_000_000.5
    assert time_of("2023-11-14T22:13:20Z") == 1_700_000_000.0
    assert time_of(12.5) is None
    assert time_of("soon") is None


def test_a_table_of_training_needs_a_step_and_more() -> None:
    assert telling(["step", "loss"])
    assert telling(["epoch", "accuracy", "reward"])
    assert not telling(["name", "age"])
    assert not telling(["step"])


CSV = b"epoch,step,train_loss,val_loss,lr-AdamW\n0,49,2.5,,0.001\n0,99,2.25,,0.001\n0,99,,2.4,\n1,149,nan,,0.001\n"


def test_csv_of_a_logger() -> None:
    found = part("lightning_logs/version_0/metrics.csv", CSV)
    assert [(one.step, one.line) for one in found.steps] == [(49, 2), (99, 3), (99, 4), (149, 5)]
    assert found.steps[0].values["loss"] == 2.5
    assert found.steps[2].values == {"epoch": 0.0, "val_loss": 2.4}
    assert math.isnan(found.steps[3].values["loss"])
    assert found.steps[0].file == 3


def test_csv_of_a_tracker_with_ranks_and_times() -> None:
    text = "\ufeff" + '"Step";"run - train/loss";"_timestamp";"rank"\n"10";"1.5";"1700000000";"4"\n'
    found = part("export.csv", text.encode())
    (one,) = found.steps
    assert (one.step, one.values, one.who.rank, one.time) == (10, {"loss": 1.5}, 4, 1_700_000_000.0)
    assert found.first_time == 1_700_000_000.0


@pytest.mark.parametrize(
    ("path", "head"),
    [
        ("train.log", b"step 1, loss 2.0, lr 0.1\nstep 2, loss 1.9, lr 0.1\n"),
        ("train.log", b"[rank0]: step, loss\n1, 2\n"),
        ("people.csv", b"name,age\nAnn,7\n"),
        ("gpu.csv", b"timestamp,name,driver_version\n2024/01/01 10:00:00.000,NVIDIA A100,535.1\n"),
        ("app.log", b'{"time": "2024-01-01T00:00:00", "level": "INFO", "message": "step 1", "step": 1, "loss": 2.0}\n'),
        ("events.jsonl", b'{"event": "checkpoint", "step": 5, "loss": 1.0}\n'),
        ("config.json", b'{"model": "x", "lr": 0.1}\n'),
        ("notes/metrics/plan.txt", b"what to measure\n"),
    ],
)
def test_other_files_are_left_to_others(path: str, head: bytes) -> None:
    for module in (metrics_csv, metrics_lines, trainer_state, mlflow_metrics, tensorboard_events):
        assert not module.looks_like(path, head), module.__name__


def test_json_lines_with_numbers_that_are_none() -> None:
    content = (
        b'{"step": 1, "train": {"loss": 2.5, "grad_norm": 1.0}}\n{"step": 2, "train": {"loss": NaN}}\n{"step": 3, "tr'
    )
    found = part("metrics.jsonl", content)
    assert [one.step for one in found.steps] == [1, 2]
    assert found.steps[0].values == {"loss": 2.5, "grad_norm": 1.0}
    assert math.isnan(found.steps[1].values["loss"])
    assert found.problem == "1 lines are no JSON objects"


STATE = {
    "best_metric": None,
    "global_step": 30,
    "log_history": [
        {"epoch": 0.1, "grad_norm": 1.5, "learning_rate": 5e-5, "loss": 2.0, "step": 10},
        {"epoch": 0.2, "grad_norm": 1.4, "learning_rate": 4e-5, "loss": 1.8, "step": 20},
        {"epoch": 0.2, "eval_loss": 1.9, "eval_runtime": 3.0, "step": 20},
        {"epoch": 0.3, "train_loss": 1.9, "train_runtime": 90.0, "step": 30},
    ],
}


def test_the_history_of_a_trainer() -> None:
    found = part("checkpoint-30/trainer_state.json", json.dumps(STATE, indent=2).encode())
    assert [one.step for one in found.steps] == [10, 20, 20]
    assert found.steps[0].values == {"grad_norm": 1.5, "lr": 5e-5, "loss": 2.0}
    assert found.steps[2].values["val_loss"] == 1.9
    assert [one.line for one in found.steps] == [10, 17, 23]


def test_a_history_that_was_cut_off_keeps_what_is_whole() -> None:
    content = json.dumps(STATE, indent=2).encode()
    found = part("trainer_state.json", content[: content.index(b'"eval_runtime"')])
    assert [one.step for one in found.steps] == [10, 20]
    assert found.problem == "cut off: 2 whole entries were read"


def test_a_metric_of_mlflow() -> None:
    found = part("mlruns/0/abc/metrics/train/loss", b"1700000000500 2.5 0\n1700000001500 NaN 1\n")
    assert [(one.step, one.time) for one in found.steps] == [(0, 1_700_000_000.5), (1, 1_700_000_001.5)]
    assert found.steps[0].values == {"loss": 2.5}


def _field(number: int, wire: int, content: bytes) -> bytes:
    return bytes([number << 3 | wire]) + (bytes([len(content)]) if wire == 2 else b"") + content


def _record(data: bytes) -> bytes:
    # The check sums are not looked at: a file that was cut off is told by its length.
    return struct.pack("<Q", len(data)) + b"\0\0\0\0" + data + b"\0\0\0\0"


def _scalar(time: float, step: int, tag: str, value: bytes) -> bytes:
    summary = _field(1, 2, _field(1, 2, tag.encode()) + value)
    return _record(_field(1, 1, struct.pack("<d", time)) + _field(2, 0, bytes([step])) + _field(5, 2, summary))


def test_events_of_tensorboard_without_tensorboard() -> None:
    tensor = _field(8, 2, _field(1, 0, b"\x01") + _field(2, 2, b"") + _field(5, 2, struct.pack("<f", 0.25)))
    many = _field(
        8, 2, _field(1, 0, b"\x01") + _field(2, 2, _field(2, 2, _field(1, 0, b"\x03"))) + _field(4, 2, b"\0" * 12)
    )
    content = (
        _record(_field(1, 1, struct.pack("<d", 5.0)) + _field(3, 2, b"brain.Event:2"))
        + _scalar(6.0, 1, "Loss/train", _field(2, 5, struct.pack("<f", 2.5)))
        + _scalar(6.5, 1, "learning_rate", tensor)
        + _scalar(7.0, 2, "Loss/train", _field(2, 5, struct.pack("<f", math.inf)))
        + _scalar(7.0, 2, "histogram", many)
    )
    found = part("runs/events.out.tfevents.1700000000.host.1.0", content)
    assert [(one.step, one.values) for one in found.steps] == [(1, {"loss": 2.5, "lr": 0.25}), (2, {"loss": math.inf})]
    assert (found.first_time, found.last_time) == (5.0, 7.0)
    assert found.problem is None
    assert [one.step for one in part("x.tfevents", content[:-70]).steps] == [1]
    assert part("x.tfevents", b"\xff" * 200).problem is not None


def test_events_that_torch_wrote(tmp_path) -> None:  # type: ignore[no-untyped-def]
    pytest.importorskip("tensorboard", reason="torch writes events with tensorboard's own code")
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    with tensorboard.SummaryWriter(tmp_path) as writer:
        for step in range(5):
            writer.add_scalar("train/loss", 2.0 - 0.1 * step, step)
    (path,) = tmp_path.iterdir()
    found = part(path.name, path.read_bytes())
    assert [one.step for one in found.steps] == list(range(5))
    assert found.steps[3].values["loss"] == pytest.approx(1.7)


def test_json_lines_between_which_a_program_printed_words_are_a_log(tmp_path: Path) -> None:
    rows = "".join(json.dumps({"step": step, "loss": 2.0 - step / 100}) + "\n" for step in range(20))
    raised = (
        'Traceback (most recent call last):\n  File "/job/train.py", line 7, in step\n'
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (16x12 and 16x32)\n"
    )
    (tmp_path / "console.log").write_text(rows + raised)
    (tmp_path / "table.jsonl").write_text(rows + '{"step": 20, "lo')
    console, table = read_logs([str(tmp_path)]).files
    assert (console.kind, table.kind) == ("text", "metrics")
    assert table.problem == "1 lines are no JSON objects"
    reading = read_logs([str(tmp_path / "console.log")])
    assert len(reading.raised) == 1
    assert [one.step for one in reading.steps] == list(range(20))


@pytest.mark.parametrize("form", ["lines", "values"])
def test_of_very_many_rows_an_even_sample_is_kept_and_the_last_ones(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    count, most = 5000, 400
    for module in (metrics_lines, metrics_csv):
        monkeypatch.setattr(module, "MOST", most)
    if form == "lines":
        found = part("m.jsonl", b"".join(b'{"step": %d, "loss": 1.5}\n' % step for step in range(count)))
    else:
        found = part("m.csv", b"step,loss\n" + b"".join(b"%d,1.5\n" % step for step in range(count)))
    steps = [one.step for one in found.steps if one.step is not None]
    assert steps == sorted(set(steps))
    assert steps[0] <= 5 * count // most
    assert steps[-20:] == [*range(count - 20, count)]
    assert most // 2 <= len(steps) <= most + 200
    spread = steps[:-100]
    assert max(later - step for step, later in pairwise(spread)) <= 5 * count // most
    assert [one.line for one in found.steps] == [step + (1 if form == "lines" else 2) for step in steps]


def test_a_large_table_is_read_in_pieces_as_a_small_one_is_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"step": step, "train": {"loss": 2.0 / (step + 1)}, "time": 1.7e9 + step} for step in range(40_000)]
    rows[39_990]["train"] = {"loss": math.nan}
    (tmp_path / "m.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows) + "{cut")
    once = read_logs([str(tmp_path)])
    monkeypatch.setattr(one_file, "_LARGE_TABLE", 1 << 20)
    pieces = read_logs([str(tmp_path)])
    assert once.files == pieces.files
    assert once.files[0].size == (tmp_path / "m.jsonl").stat().st_size > 2 << 20
    assert repr(once.steps) == repr(pieces.steps)
    assert len(once.steps) == 40_000


def test_a_large_console_of_json_lines_is_a_log_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = "".join(json.dumps({"step": step, "loss": 2.0}) + "\n" for step in range(30_000))
    words = "loading the model\nthe model is loaded\nthe training begins\n"
    (tmp_path / "m.jsonl").write_text('{"step": 0, "loss": 2.5}\n' * 4 + words + rows)
    monkeypatch.setattr(one_file, "_LARGE_TABLE", 1 << 19)
    reading = read_logs([str(tmp_path)])
    assert reading.files[0].kind == "text"
    assert reading.steps[-1].step == 29_999


def test_what_only_python_reads_as_json_is_read(tmp_path: Path) -> None:
    found = part("m.jsonl", b'{"step": 1, "loss": NaN}\n{"step": 2, "loss": 1e999}\n{"step": 3, "loss": -Infinity}\n')
    assert [str(one.values["loss"]) for one in found.steps] == ["nan", "inf", "-inf"]
