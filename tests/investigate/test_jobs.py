"""Files of several jobs in one folder: told apart, each judged by itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.investigate.jobs import jobs_of
from preflight.report.render import render
from preflight.vocabulary.log import LogFile

OUT_OF_MEMORY = (
    "{at} step 10 loss 2.0\n[rank{rank}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a "
    "total capacity of 79.15 GiB of which 1.00 GiB is free.\n"
)
TRACEBACK = "Traceback (most recent call last):\n"
GOES_ON = "{at} step {step} loss 1.9\n"


def _files(*paths: str) -> tuple[LogFile, ...]:
    return tuple(LogFile(index=number, path=path, kind="text", lines=3) for number, path in enumerate(paths))


def _healthy(day: int) -> str:
    return "".join(GOES_ON.format(at=f"2025-03-{day:02} 10:{minute:02}:00", step=minute) for minute in range(20))


def test_two_jobs_of_a_scheduler_are_judged_apart(tmp_path: Path) -> None:
    (tmp_path / "slurm-41.out").write_text(OUT_OF_MEMORY.format(at="2025-03-02 10:05:00", rank=3))
    (tmp_path / "slurm-42.out").write_text(_healthy(2))
    report = diagnose(tmp_path)
    assert report.incident is not None
    assert {job.name: job.category for job in report.incident.jobs} == {"41": "oom", "42": "none"}
    assert report.incident.category == "oom"
    assert report.incident.culprit.ranks == (3,)
    assert report.verdict == "NO-GO"
    shown = render(report, "text") + render(report, "markdown")
    assert "41" in shown
    assert "JOBS" in shown


def test_a_job_that_another_one_followed_is_not_what_matters(tmp_path: Path) -> None:
    (tmp_path / "slurm-41.out").write_text(OUT_OF_MEMORY.format(at="2025-03-01 10:00:00", rank=3))
    (tmp_path / "slurm-42.out").write_text(_healthy(2))
    incident = diagnose(tmp_path).incident
    assert incident is not None
    assert incident.category == "none"
    assert [job.category for job in incident.jobs] == ["oom", "none"]


def test_folders_with_the_same_ranks_are_jobs(tmp_path: Path) -> None:
    for name in ("baseline", "longer-context"):
        for rank in range(4):
            folder = tmp_path / name
            folder.mkdir(exist_ok=True)
            bad = name == "longer-context" and rank == 2
            text = OUT_OF_MEMORY.format(at="2025-03-02 10:30:00", rank=rank) if bad else _healthy(2)
            (folder / f"rank_{rank}.log").write_text(text)
    incident = diagnose(tmp_path).incident
    assert incident is not None
    assert {job.name: job.category for job in incident.jobs} == {"baseline": "none", "longer-context": "oom"}
    assert incident.culprit.ranks == (2,)


@pytest.mark.parametrize(
    "paths",
    [
        ("logs/node0/rank_0.log", "logs/node0/rank_1.log", "logs/node1/rank_0.log", "logs/node1/rank_1.log"),
        (
            "logs/attempt_0/rank_0.log",
            "logs/attempt_0/rank_1.log",
            "logs/attempt_1/rank_0.log",
            "logs/attempt_1/rank_1.log",
        ),
        ("logs/none_ab12cd34/attempt_0/0/stderr.log", "logs/none_ef56gh78/attempt_0/0/stderr.log"),
        ("logs/stdout/rank_0.log", "logs/stdout/rank_1.log", "logs/stderr/rank_0.log", "logs/stderr/rank_1.log"),
        ("slurm-41_0.out", "slurm-41_1.out"),
        ("rank_0.log", "rank_1.log"),
        ("a/train.log", "b/train.log"),
        (),
    ],
)
def test_the_parts_of_one_job_stay_together(paths: tuple[str, ...]) -> None:
    assert jobs_of(_files(*paths)) == {}


def test_runs_of_agents_are_told_by_their_names() -> None:
    paths = ("logs/exp7_ab12cd34/attempt_0/0/stderr.log", "logs/exp8_ef56gh78/attempt_0/0/stderr.log")
    assert jobs_of(_files(*paths)) == {"exp7": {0}, "exp8": {1}}


def test_the_log_of_the_kernel_belongs_to_every_job() -> None:
    files = (*_files("slurm-41.out", "slurm-42.out"), LogFile(index=2, path="dmesg", kind="kernel", lines=9))
    assert jobs_of(files) == {"41": {0}, "42": {1}}


@pytest.mark.parametrize(
    "paths",
    [
        # What a scheduler writes, beside what torchrun does for the same run.
        ("slurm-48213.out", "logs/29312_ab12cd34/attempt_0/0/stderr.log", "logs/29312_ab12cd34/attempt_0/1/stderr.log"),
        # The letters that torchrun adds may be underscores.
        ("none_a_bcdefg/attempt_0/0/stderr.log", "none__bcdefgh/attempt_0/1/stderr.log"),
        ("run/out/rank_0.log", "run/out/rank_1.log", "run/err/rank_0.log", "run/err/rank_1.log"),
        # Ranks counted within each host.
        ("jwb0097/rank_0.log", "jwb0097/rank_1.log", "jwb0098/rank_0.log", "jwb0098/rank_1.log"),
    ],
)
def test_parts_of_one_run_are_no_jobs(paths: tuple[str, ...]) -> None:
    assert jobs_of(_files(*paths)) == {}


def test_dumps_beside_the_logs_of_a_run_are_no_other_job() -> None:
    logs = _files("run/rank_0.log", "run/rank_1.log")
    dumps = tuple(
        LogFile(index=2 + rank, path=f"traces_of_nccl/rank_{rank}", kind="flight", lines=0) for rank in range(2)
    )
    assert jobs_of((*logs, *dumps)) == {}


def test_runs_of_torchrun_in_two_folders_are_two_jobs_with_all_that_lies_in_them() -> None:
    """Each holds the ranks of the same node: one run has each of them once."""
    paths = [f"all/{job}/node0/logs/none_{letters}/attempt_0/{local}/stderr.log"
             for job, letters in (("monday", "ab12cd34"), ("tuesday", "ef56gh78")) for local in range(2)]  # fmt: skip
    dumps = (
        LogFile(index=4, path="all/tuesday/node0/logs/none_ef56gh78/attempt_0/1/error.json", kind="exit", lines=1),
        LogFile(index=5, path="all/tuesday/dmesg.txt", kind="kernel", lines=9),
    )
    assert jobs_of((*_files(*paths), *dumps)) == {"monday": {0, 1}, "tuesday": {2, 3, 4, 5}}


def test_runs_in_one_folder_of_torchrun_are_told_apart_where_their_lines_name_the_same_ranks() -> None:
    paths = [f"logs/none_{letters}/attempt_0/{local}/stderr.log"
             for letters in ("ab12cd34", "ef56gh78") for local in range(2)]  # fmt: skip
    files = _files(*paths)
    assert set(jobs_of(files, {0: 0, 1: 1, 2: 0, 3: 1})) == {"none_ab12cd34", "none_ef56gh78"}
    assert jobs_of(files, {0: 0, 1: 1, 2: 2, 3: 3}) == {}, "two nodes of one job"
    assert jobs_of(files) == {}


def test_what_a_launcher_wrote_of_one_job_says_nothing_of_another(tmp_path: Path) -> None:
    for name, raised in (("monday", True), ("tuesday", False)):
        for rank in range(3):
            folder = tmp_path / name / "node0" / "logs" / "none_ab12cd34" / "attempt_0" / str(rank)
            folder.mkdir(parents=True)
            (folder / "stderr.log").write_text(_healthy(2 if raised else 3))
            if raised and rank == 1:
                raised_at = 'File "/job/train.py", line 9, in main\n    load()'
                told = {
                    "py_callstack": f"{TRACEBACK}  {raised_at}\nValueError: no such vocabulary\n",
                    "timestamp": "1740911500",
                }
                said = {"message": {"message": "ValueError: no such vocabulary", "extraInfo": told}}
                (folder / "error.json").write_text(json.dumps(said))
    incident = diagnose(tmp_path).incident
    assert incident is not None
    assert {job.name: job.category for job in incident.jobs}["tuesday"] == "none"
    assert {job.name: job.ranks for job in incident.jobs}["monday"] == (1,)
