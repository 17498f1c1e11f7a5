"""Each trainer's callback, with the real package and the trackers offline: what they wrote is read back.

torchtitan needs GPUs; a class with the interface of its trainer stands in for it.
"""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs torch")

pytestmark = pytest.mark.torch
HERE = Path(__file__).resolve().parent
PACKAGES = ("accelerate", "lightning", "transformers", "wandb", "mlflow", "tensorboard", "prometheus_client")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which each trainer has trained, all of them in one process, for all workers of pytest."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"needs torch and {', '.join(missing)}")
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    folder = shared / "trainers"
    with (shared / "trainers.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "stderr").is_file():
            folder.mkdir(exist_ok=True)
            _train(folder)
    return folder


def _train(folder: Path) -> None:
    environment = {
        **os.environ, "WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_DIR": ".", "TENSORBOARD_LOGGING_DIR": "tb",
        "MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_TRACKING_URI": "mlruns", "HF_HUB_OFFLINE": "1",
        "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "1", "WANDB_ERROR_REPORTING": "false",
    }  # fmt: skip
    ended = subprocess.run(
        [sys.executable, str(HERE / "scripts" / "trainers.py")],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-4000:]
    (folder / "stderr").write_text(ended.stderr)


@pytest.fixture(scope="module")
def done(place: Path) -> dict[str, Any]:
    known: dict[str, Any] = json.loads((place / "done.json").read_text())
    return known


def events(folder: Path) -> tuple[dict[str, list[tuple[int, float]]], dict[str, list[str]]]:
    """The scalars and the texts that TensorBoard reads in a folder."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(folder))
    read.Reload()
    scalars = {tag: [(one.step, one.value) for one in read.Scalars(tag)] for tag in read.Tags()["scalars"]}
    texts = {
        tag: [one.tensor_proto.string_val[0].decode() for one in read.Tensors(tag)] for tag in read.Tags()["tensors"]
    }
    return scalars, texts


@pytest.mark.parametrize("trainer", ["transformers", "lightning", "accelerate", "torchtitan"])
def test_every_trainer_is_recorded_and_judged(done: dict[str, Any], place: Path, trainer: str) -> None:
    found = done[trainer]
    broken = trainer == "transformers"
    assert found["verdict"] == ("NO-GO" if broken else "GO")
    assert found["relations"] == (["gradients-cleared"] if broken else [])
    run = json.loads((place / found["folder"] / "run.json").read_text())
    assert run["exit_code"] == 0
    assert run["ended"] is not None
    word = "1 error" if broken else "no alarms"
    assert f"{found['verdict']}  {word}; the trace is in {found['folder']}" in (place / "stderr").read_text()


def test_no_number_of_the_training_changes(done: dict[str, Any]) -> None:
    found = done["transformers"]
    assert len(found["alone"]) == 4
    assert found["watched"] == found["alone"]
    assert len(set(found["generators"])) == 1


def test_an_alarm_on_the_loss_of_a_lightning_module_names_its_step_and_not_fit(done: dict[str, Any]) -> None:
    lines = (Path(__file__).parent / "scripts" / "trainers.py").read_text().splitlines()
    [(relation, line)] = done["squashed"]
    assert relation == "loss-input-fits"
    assert "self.net(" in lines[line - 1]


def test_what_a_training_raises_gets_out_and_is_in_the_trace(done: dict[str, Any], place: Path) -> None:
    assert done["raised"]["error"] == "mine"
    assert json.loads((place / "failing-trace" / "run.json").read_text())["exit_code"] == 1


def test_tensorboard_has_figures_alarm_and_verdict_of_transformers(place: Path) -> None:
    scalars, texts = events(place / "tb")
    assert "train/loss" in scalars, "the program's own curves are beside ours"
    assert scalars["preflight/errors"][-1] == (16, 1.0)
    assert scalars["preflight/steps"][-1] == (16, 16.0)
    assert scalars["preflight/go"] == [(16, 0.0)]
    assert 0 < scalars["preflight/overhead_percent"][-1][1] < 100
    assert scalars["preflight/step_seconds"][-1][1] > 0
    (alarm,) = texts["preflight/alarm/text_summary"]
    assert "since step 1" in alarm
    assert "trainers.py:" in alarm
    assert "trainer.train()" in alarm
    (verdict,) = texts["preflight/verdict/text_summary"]
    assert verdict.startswith("**NO-GO**")
    assert "gradients-cleared" in verdict


def test_tensorboard_has_the_verdict_of_every_other_trainer(place: Path) -> None:
    for folder in (place / "lit" / "tb" / "0", place / "acc" / "run", place / "titan"):
        scalars, texts = events(folder)
        assert scalars["preflight/go"][-1][1] == 1.0
        assert scalars["preflight/violations"][-1][1] == 0.0
        assert texts["preflight/verdict/text_summary"] == ["**GO**"]


def records(content: bytes) -> Iterator[bytes]:
    """The records of a file of W&B: after 7 bytes of head a log of LevelDB, blocks of 32 KiB with pieces of records."""
    at, whole = 7, b""
    while at + 7 <= len(content):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        size, kind = int.from_bytes(content[at + 4 : at + 6], "little"), content[at + 6]
        whole += content[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # a whole record, or the last piece of one
            yield whole
            whole = b""


def test_wandb_has_figures_table_alert_and_verdict(place: Path) -> None:
    from wandb.proto import wandb_internal_pb2

    (file,) = place.glob("wandb/offline-run-*/run-*.wandb")
    history: list[dict[str, Any]] = []
    summary: dict[str, Any] = {}
    alerts = []
    for data in records(file.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        kind = record.WhichOneof("record_type")
        if kind == "history":
            row = {one.key or "/".join(one.nested_key): json.loads(one.value_json) for one in record.history.item}
            history.append(row)
        elif kind == "summary":
            summary |= {
                one.key or "/".join(one.nested_key): json.loads(one.value_json) for one in record.summary.update
            }
        elif kind == "alert":
            alerts.append(record.alert)
    mine = [row for row in history if "preflight/errors" in row]
    assert [row["preflight/errors"] for row in mine][-1] == 1
    assert mine[-1]["preflight/step"] == 16
    assert any("train/loss" in row for row in history)
    assert summary["preflight/verdict"] == "NO-GO"
    assert [(one.level, "since step 1" in one.text) for one in alerts] == [("ERROR", True)]
    (table,) = place.glob("wandb/offline-run-*/files/media/table/preflight/alarms_*.json")
    (row,) = json.loads(table.read_text())["data"]
    assert row[:3] == [1, "error", "gradients-cleared"]
    assert row[5] == "trainer.train()"


def test_mlflow_has_metrics_tags_and_artifacts(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    for folder, verdict, errors in (("mlruns", "NO-GO", "1.0"), ("lit-mlruns", "GO", "0.0")):
        (metric,) = (place / folder).glob("*/*/metrics/preflight/errors")
        assert metric.read_text().split()[1:] == [errors, "16"]
        run = metric.parents[2]
        assert (run / "tags" / "preflight.verdict").read_text() == verdict
        report = json.loads((run / "artifacts" / "preflight" / "report.json").read_text())
        assert report["verdict"] == verdict
        table = run / "artifacts" / "preflight" / "alarms.md"
        assert table.is_file() == (verdict == "NO-GO")


def test_prometheus_has_the_figures(done: dict[str, Any], place: Path) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    def samples(text: str) -> dict[str, float]:
        known = {}
        for family in text_string_to_metric_families(text):
            for one in family.samples:
                known[one.name + "".join(sorted(one.labels.values()))] = one.value
        return known

    running = samples(done["prometheus"]["fetched"])
    assert running["preflight_verdictrunning"] == 1
    ended = samples((place / "titan.prom").read_text())
    assert ended["preflight_steps_total"] == 12
    assert ended["preflight_verdictGO"] == 1
    assert ended["preflight_verdictrunning"] == 0
    assert 0 < ended["preflight_overhead_ratio"] < 1
    assert ended["preflight_step_duration_seconds"] > 0
