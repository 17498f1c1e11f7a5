"""Whatever is given to the parts of investigate by mistake is named, with what would be right."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from .command_line import run


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "junk.bin").write_bytes(bytes(range(256)) * 400)
    (tmp_path / "junk.csv").write_bytes(bytes(range(256)) * 400)
    (tmp_path / "empty").mkdir()
    (tmp_path / "run.log").write_text("step 1 loss 2.0\n")
    (tmp_path / "trials.csv").write_text("side,outcome,mfu\nbefore,fail,0.4\nafter,pass,0.4\n")
    (tmp_path / "mine" / "signatures" / "own").mkdir(parents=True)
    (tmp_path / "mine" / "signatures" / "own" / "one.toml").write_text("title = 'One'\n")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        (("hang", "rum.log"), "rum.log: no such file", "did you mean run.log?"),
        (("hang", "run.log"), "no stacks", "py-spy dump"),
        (("verify", "--trials", "rum.log"), "rum.log: no such file", "did you mean run.log?"),
        (("verify", "--trials", "junk.bin"), "junk.bin: is no table of trials", "--before and --after"),
        (("verify", "--trials", "junk.csv"), "junk.csv: is no table of trials", "outcome"),
        (("verify", "--before", "rum.log", "--after", "run.log"), "rum.log: no such file", "run.log"),
        (("events", "junk.bin"), "junk.bin: no event in it", "event_type"),
        (("events", "--jobs", "rum.log"), "rum.log: no such file", "run.log"),
        (("events", "--jobs", "junk.csv"), "junk.csv", ""),
        (("doctor", "--compare", "rum"), "rum: not a snapshot: No such file or directory\n", "--save"),
        (("doctor", "--compare", "empty"), "no snapshot in empty", "--save"),
        (("report", "rum.log"), "rum.log: no such file", "run.log"),
        (("run.log", "--format", "yaml"), "unknown format 'yaml'", "one of csv"),
        (("nothere",), "nothere: no such file or folder\n", ""),
        (("triag",), "triag: neither a file nor a subcommand", "investigate triage"),
        (("run.log", "--folow"), "no such option: --folow", "--follow"),
        (("tree", "crsh"), "no tree is called 'crsh'", "crash"),
        (("checklist", "before-lunch"), "no checklist is called", "before-launch"),
        (
            ("checklist", "--attest", "item", "--by", "Ada", "--evidence", "seen"),
            "no checklist is named",
            "preflight list checklists",
        ),
        (
            ("bisect", "--batch", "1", "8", "--state", "run.log/kept", "--", "echo", "{batch}"),
            "run.log/kept: no results can be kept there",
            "--state",
        ),
        (("probe", "computer"), "no probe is called", "compute"),
        (("fix", "reduce-bach"), "no remedies for", "reduce-batch"),
        (("tree", "--say", "runing=yes"), "--say runing: no tree asks that", "did you mean running?"),
        (("tree", "--say", "crash.running=yes"), "--say crash.running: no tree asks that", "triage.running"),
        (("bisect", "--batch", "8", "8", "--", "echo", "{batch}"), "both ends are the same", "two numbers"),
        (("bisect", "--batch", "8", "x", "--", "echo", "{batch}"), "'x' is no whole number", "bisect --help"),
        (("checklist", "long-runs", "--set", "quota=1"), "there is no setting 'quota'", "one of checkpoint_folder, "),
        (("checklist", "run.log"), "run.log: is no checklist", "TOML"),
        (("run.log", "--signatures", "own"), "own: no such file or folder", ""),
        (("run.log", "--signatures", "run.log"), "--signatures run.log: is a file", "signatures/FAMILY/NAME.toml"),
        (("run.log", "--signatures", "empty"), "empty: there is no signatures/FAMILY/NAME.toml", "--draft"),
        (("run.log", "--signatures", "mine/signatures"), "there is no signatures/FAMILY/NAME.toml in", "mean mine?"),
        (("verify", "--trials", "trials.csv", "--rate", "2"), "--rate 2: of runs, no more than all fail", "--unit"),
        (("verify", "--trials", "trials.csv", "--metric", "mfo:higher"), "no run tells it", "did you mean mfu?"),
    ],
)
def test_one_error_names_the_thing_and_the_nearest(
    words: tuple[str, ...], error: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("investigate", *words) == 2
    said = capsys.readouterr()
    assert error in said.err
    assert hint in said.err
    assert said.err.count("preflight: error:") == 1
    assert "Traceback" not in said.err
    assert said.out == ""


@pytest.mark.parametrize("what", ["junk.bin", "empty"])
@pytest.mark.parametrize("words", [(), ("why",), ("report",)])
def test_what_tells_nothing_is_named_and_undecided(
    what: str, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("investigate", *words, what) == 3
    assert what in capsys.readouterr().out.split("REMARKS")[1]


def test_invariants_without_a_trace_are_told_of_and_the_logs_are_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("investigate", "run.log", "--invariants", "run.log") in (0, 3)
    said = capsys.readouterr()
    assert "--invariants run.log judges nothing: no trace is among what was given" in said.err
    assert "run.log" in said.out


def test_a_file_whose_name_has_only_its_ending_in_common_is_not_meant(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("investigate", "events", "nosuch.log") == 2
    assert "hint" not in capsys.readouterr().err


def test_a_folder_that_may_not_be_listed_tells_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = os.listdir

    def refused(path: str) -> list[str]:
        if path == "empty":
            raise PermissionError(13, "Permission denied", path)
        return listed(path)

    monkeypatch.setattr(os, "listdir", refused)
    assert run("investigate", "empty") == 3
    assert capsys.readouterr().out.startswith("UNKNOWN")


def test_a_dump_that_wants_to_run_something_is_the_reason_why_there_is_none(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, ...]:
            return os.mkdir, (str(folder / "made"),)

    (folder / "nccl_trace_rank_0").write_bytes(pickle.dumps({"entries": [Evil()]}, 2))
    assert run("investigate", "hang", "nccl_trace_rank_0") == 2
    said = capsys.readouterr().err
    assert "nothing of it was run" in said
    assert "nccl_trace_rank_0" in said
    assert not (folder / "made").exists()


def test_a_job_of_which_nothing_is_known_is_not_counted_as_good(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("investigate", "events", "--jobs", "junk.bin", "--jobs", "run.log") == 3
    said = " ".join(capsys.readouterr().out.split())
    assert "0 of 1 jobs failed" in said
    assert "junk.bin: does not tell how this job ended" in said
    assert run("investigate", "events", "--jobs", "junk.bin") == 3
    assert "no job that says how it ended" in " ".join(capsys.readouterr().out.split())


def test_a_rate_of_more_than_one_may_be_one_of_hours(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "hours.csv").write_text("side,outcome,hours\nbefore,fail,1\nafter,pass,3\n")
    assert run("investigate", "verify", "--trials", "hours.csv", "--unit", "hours", "--rate", "2") in (0, 3)
    assert "error" not in capsys.readouterr().err


def test_a_program_is_no_log_without_a_word_of_trouble(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "train.py").write_text("import torch\n" + "model = torch.nn.Linear(2, 2)\n" * 40)
    assert run("investigate", "train.py") == 3
    said = capsys.readouterr().out
    assert "train.py: programs or settings and no logs, not read" in said
    assert "no word of trouble" not in said
