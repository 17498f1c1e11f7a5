"""What Preflight told of a run itself counts beside its logs: traces, alarms, reports, the run folder; and drafts."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from tests.monitor.learn.recorded import training
from tests.monitor.rows import end

from preflight.catalog.signature_files import load_signatures
from preflight.monitor.api import check_trace
from preflight.monitor.collect.encode import block, payload
from preflight.monitor.library_of import read_invariants
from preflight.monitor.trace.run_file import write_run
from preflight.vocabulary.trace import RecordedRun

from .command_line import run

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the log of a run of two ranks in which all seems well, and a trace in which ranks come apart."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PREFLIGHT_RUN", raising=False)
    training(Path("trace"), world=2, apart_at=6)
    write_run(Path("trace"), RecordedRun(started=1000.0, ended=1060.0))
    Path("run.log").write_text("".join(f"step {n}: loss {5 - n / 10:.3f}\n" for n in range(12)))
    return tmp_path


def _json(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    run("investigate", *arguments, "--format", "json")
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


def _named(told: dict[str, Any], kind: str) -> list[str]:
    return [one["id"] for one in told["incident"].get("caught_by", []) if one["kind"] == kind]


def test_a_trace_beside_the_log_is_the_cause_of_a_silent_error(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _json(capsys, "run.log")["verdict"] == "GO"
    told = _json(capsys, "run.log", "trace")
    assert told["verdict"] == "NO-GO"
    assert told["incident"]["first_failure"]["step"] == told["violations"][0]["first_step"]
    assert told["inputs"]["watched"] == ["trace"]
    (relation,) = _named(told, "relation")
    assert relation == told["violations"][0]["relation"]
    assert run("explain", relation) == 0  # what is named has a page
    assert run("investigate", "run.log", "trace") == 1
    assert "VIOLATIONS" in capsys.readouterr().out


def test_a_trace_alone_and_one_within_a_folder(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _json(capsys, "trace")["verdict"] == "NO-GO"
    (here / "all").mkdir()
    shutil.move("trace", "all/trace")
    shutil.move("run.log", "all/run.log")
    told = _json(capsys, "all")
    assert told["inputs"]["watched"] == [os.path.join("all", "trace")]


@pytest.mark.parametrize(
    ("errors", "code", "verdict", "category", "ranks", "said"),
    [
        ((None, None), 0, "GO", "none", [], "exit code 0 after iteration 12"),
        ((None, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of"
          " 79.10 GiB of which 1.00 GiB is free."), 1, "NO-GO", "oom", [1], "rank 1"),
        ((None, None), 137, "NO-GO", "oom", [], "killed by signal 9"),
        ((None, None), None, "UNKNOWN", "cannot-tell", [], "does not tell"),
    ],
)  # fmt: skip
def test_a_trace_alone_tells_how_its_run_ended(
    here: Path, capsys: pytest.CaptureFixture[str], errors: tuple[str | None, ...], code: int | None, verdict: str,
    category: str, ranks: list[int], said: str,
) -> None:  # fmt: skip
    training(Path("well"), world=2)
    for rank, error in enumerate(errors):
        path = Path("well") / f"rank-{rank:05d}.{100 + rank}.trace"
        if error is not None:
            last = [("end", end(2000, 12, how="exception", error=error))]
            path.write_bytes(path.read_bytes() + block(payload(last)))
    write_run(Path("well"), RecordedRun(started=1000.0, ended=1060.0 if code is not None else None, exit_code=code))
    told = _json(capsys, "well")
    incident = told["incident"]
    assert (told["verdict"], incident["category"], incident["culprit"].get("ranks", [])) == (verdict, category, ranks)
    assert said in incident["headline"]
    if ranks:
        assert incident["first_failure"]["step"] == 12


@pytest.mark.parametrize("word", ["triage", "why", "report"])
def test_every_look_at_a_trace_alone_says_the_same(here: Path, capsys: pytest.CaptureFixture[str], word: str) -> None:
    training(Path("well"), world=2)
    write_run(Path("well"), RecordedRun(started=1000.0, ended=1060.0, exit_code=0))
    assert run("investigate", word, "well") == (2 if word == "why" else 0)  # there is nothing to explain
    said = capsys.readouterr()
    assert "exit code 0 after iteration 12" in " ".join((said.out + said.err).split())


def test_a_rank_without_an_end_began_what_the_others_tell_of(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    training(Path("cut"), world=2)
    told_by, silent = (Path("cut") / f"rank-{rank:05d}.{100 + rank}.trace" for rank in range(2))
    gone = (
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:26770"
    )
    told_by.write_bytes(told_by.read_bytes() + block(payload([("end", end(2000, 12, how="exception", error=gone))])))
    silent.write_bytes(silent.read_bytes().removesuffix(block(payload([("end", end(1299, 12))]))))
    write_run(Path("cut"), RecordedRun(started=1000.0, ended=1060.0, exit_code=1))
    incident = _json(capsys, "cut")["incident"]
    assert incident["culprit"]["ranks"] == [1]
    assert "ends without a word, while 1 other rank reports a failure" in [
        one["text"] for one in incident["culprit"]["reasons"]
    ]


def test_an_error_that_the_monitor_found_comes_before_how_the_run_ended(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = _json(capsys, "trace")
    path = Path("trace/rank-00000.100.trace")
    stopped = [("end", end(2000, 12, how="exception", error="KeyboardInterrupt: "))]
    path.write_bytes(path.read_bytes() + block(payload(stopped)))
    write_run(Path("trace"), RecordedRun(started=1000.0, ended=1060.0, exit_code=143))
    told = _json(capsys, "trace")
    assert told["incident"] == before["incident"]
    assert "rank 0 ended with KeyboardInterrupt in iteration 12" in told["notes"]


def test_alarms_and_reports_count_as_the_trace_does(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("monitor", "check", "trace", "-o", "watched.json")
    run("monitor", "watch", "trace", "--alerts", "alarms.jsonl")
    capsys.readouterr()
    whole = _json(capsys, "run.log", "trace")["incident"]
    for name in ("watched.json", "alarms.jsonl"):
        told = _json(capsys, "run.log", name)["incident"]
        assert (told["category"], told["first_failure"]) == (whole["category"], whole["first_failure"])
    with open("alarms.jsonl", "a") as file:
        file.write('{"schema": "preflight.alert/1", "viol')  # the writer was killed
    assert _json(capsys, "run.log", "alarms.jsonl")["verdict"] == "NO-GO"


def test_the_run_folder_has_the_watched_run_only_where_the_logs_are_of_it(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("report", "--begin")
    run("monitor", "check", "trace")
    capsys.readouterr()
    for written, verdict in ((1059, "NO-GO"), (999, "GO"), (1200, "GO")):
        os.utime("run.log", (written, written))
        assert _json(capsys, "run.log")["verdict"] == verdict


def test_memory_that_was_foretold_in_the_run_folder(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(EXAMPLES / "memory_overflow.py", "train.py")
    log = EXAMPLES / "incidents" / "out-of-memory.log"
    assert _named(_json(capsys, log), "plan") == []
    run("report", "--begin")
    run("check", "train.py", "--gpu", "a100-40gb")
    run("plan", "--script", "train.py", "--gpu", "a100-40gb")
    capsys.readouterr()
    told = _json(capsys, log)
    expected = [one["text"] for one in told["incident"]["caught_by"] if one["kind"] == "plan"]
    assert any(text.startswith("preflight check expects a peak of 47.1 GiB in train.py") for text in expected)
    assert any(text.startswith("preflight plan expects a peak of 47.1 GiB in train.py") for text in expected)
    assert all("the step cannot fit" in text for text in expected)
    assert "step-exceeds-device" in _named(told, "rule")
    assert any("reports/0001" in note for note in told["notes"])
    assert [one["question"] for one in told["incident"]["five_whys"]].count("What does the script need?") == 1
    leading = told["incident"]["hypotheses"][0]
    assert leading["cause"] == "peak-exceeds-device"
    assert any("the step cannot fit" in reason["text"] for reason in leading["reasons"])
    assert sum(one["probability"] for one in told["incident"]["hypotheses"]) == pytest.approx(1.0)
    # A script that is named is checked anew; what the folder has of it is old.
    assert len(_named(_json(capsys, log, "--script", "train.py"), "plan")) == 1


def test_of_several_scripts_in_the_run_folder_the_one_of_the_logs_counts_as_it_was_before_the_failure(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(EXAMPLES / "memory_overflow.py", "train.py")
    shutil.copy(EXAMPLES / "good_model.py", "other.py")
    shutil.copy(EXAMPLES / "incidents" / "out-of-memory.log", "oom.log")
    with open("oom.log", "a") as file:
        file.write('  File "/job/train.py", line 61, in <module>\n')
    run("report", "--begin")
    run("check", "train.py", "--gpu", "a100-40gb")
    (left,) = Path(".preflight", "reports").glob("*.json")
    written = json.loads(left.read_text())["time"]
    # The file system's clock ticks a few milliseconds behind the one that the report was stamped with.
    os.utime("oom.log", (written - 0.004, written - 0.004))
    time.sleep(0.05)
    mended = Path("train.py").read_text().replace("batch_size=", "batch_size=1 or ")
    Path("train.py").write_text(mended)
    run("check", "train.py", "--gpu", "a100-40gb")
    run("check", "other.py", "--gpu", "a100-40gb")
    capsys.readouterr()
    told = _json(capsys, "oom.log")
    (expected,) = [one["text"] for one in told["incident"]["caught_by"] if one["kind"] == "plan"]
    assert expected.startswith("preflight check expects a peak of 47.1 GiB in train.py")


def test_a_report_given_by_name_tells_of_memory_too(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("plan", "--script", EXAMPLES / "memory_overflow.py", "--gpu", "a100-40gb", "-o", "plan.json")
    capsys.readouterr()
    assert _named(_json(capsys, EXAMPLES / "incidents" / "out-of-memory.log", "plan.json"), "plan") == ["peak"]


def test_what_is_no_evidence_is_said(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("investigate", "run.log", "-o", "incident.json")
    capsys.readouterr()
    told = _json(capsys, "incident.json")
    assert told["verdict"] == "UNKNOWN"
    assert any("incident.json is what preflight investigate told" in note for note in told["notes"])
    Path("broken.json").write_text('{"schema": "preflight.report/1", "command": ')
    assert run("investigate", "broken.json") == 2
    assert "broken.json: " in capsys.readouterr().err


RAISED = """\
Traceback (most recent call last):
  File "train.py", line 9, in <module>
    ring.calibrate()
RingLost: calibration of ring 7 lost after 3 tries
"""


@pytest.mark.parametrize("more", ["", "FATAL ring calibration lost: quorum 3 of 8 answered\n"])
def test_a_draft_of_a_signature_knows_the_line_the_next_time(
    here: Path, capsys: pytest.CaptureFixture[str], more: str
) -> None:
    Path("odd.log").write_text(Path("run.log").read_text() + more + RAISED)
    assert _json(capsys, "odd.log")["incident"]["signature"] == "exception.RingLost"
    assert run("investigate", "odd.log", "--draft", "own") == 1
    assert "a draft is written to own" in capsys.readouterr().err
    (drafted,) = (one for one in load_signatures(("own",)) if one.id.startswith("own."))
    Path("odd.log").write_text(Path("odd.log").read_text().replace("7", "5").replace("3 ", "9 "))
    assert _json(capsys, "odd.log", "--signatures", "own")["incident"]["signature"] == drafted.id
    assert run("investigate", "odd.log", "--draft", "own") == 2  # nothing is written over
    assert "is there already" in capsys.readouterr().err


def test_a_draft_holds_no_secret_and_knows_the_line_with_another_one(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "RingLost: cannot join the ring of zoe@lab.org with password={} and Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0{} of {home}/zoe/x"
    log = f"{Path('run.log').read_text()}{RAISED.rpartition('RingLost')[0]}"
    Path("odd.log").write_text(f"{log}{said.format('sup3rsecret', 'NTY3ODkwIn0', home='/ho' + 'me')}\n")
    assert run("investigate", "odd.log", "--draft", "kept") == 1
    capsys.readouterr()
    told = "".join(path.read_text() for path in Path("kept").rglob("*.toml"))
    assert "cannot join the ring of" in told
    assert not [word for word in ("sup3r", "eyJ", "NTY", "zoe") if word in told]
    Path("odd.log").write_text(f"{log}{said.format('0th3r', 'QWERTYUIOPAS', home='/ho' + 'me')}\n")
    (drafted,) = (one for one in load_signatures(("kept",)) if one.id.startswith("own."))
    assert _json(capsys, "odd.log", "--signatures", "kept")["incident"]["signature"] == drafted.id


def test_nothing_is_drafted_where_all_is_known(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("investigate", EXAMPLES / "incidents" / "out-of-memory.log", "--draft", "own") == 1
    assert "nothing is drafted" in capsys.readouterr().err
    assert not Path("own").exists()


def test_a_warning_that_was_the_cause_is_drafted_as_an_error(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("monitor", "check", "trace", "-o", "watched.json")
    told = json.loads(Path("watched.json").read_text())
    for one in told["violations"]:
        one["severity"] = "warning"
    Path("watched.json").write_text(json.dumps(told))
    Path("run.log").write_text("".join(f"step {n}: loss {4 * 3.0**n if n < 14 else 'nan'}\n" for n in range(40)))
    run("investigate", "run.log", "watched.json", "--draft", "own")
    capsys.readouterr()
    (held,) = read_invariants(Path("own/invariants/drafted.jsonl"))
    assert (held.severity, held.pinned) == ("error", True)
    found = check_trace("trace", invariants=["own/invariants/drafted.jsonl"])
    assert [(one.relation, one.severity) for one in found.violations] == [(held.relation, "error")]
