"""How processes ended, as others tell it."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.source.logs import read_logs
from preflight.source.logs.endings import as_code, ends, signal_number
from preflight.vocabulary.log import Who

TOLD: dict[str, tuple[tuple[Who, ...], int | None, str]] = {
    "failed (exitcode: -9) local_rank: 2 (pid: 1234) of binary: /usr/bin/python": ((Who(local_rank=2, pid=1234),), -9, "torchrun"),
    "[launch.py:321:sigkill_handler] Process 4411 exits with return code = 1": ((Who(pid=4411),), 1, "deepspeed"),
    "srun: error: node001: task 3: Exited with exit code 1": ((Who(3, "node001"),), 1, "slurm"),
    "srun: error: node001: tasks 4-6: Killed": ((Who(4, "node001"), Who(5, "node001"), Who(6, "node001")), -9, "slurm"),
    "srun.slurm: error: borg01x154: task 4: Killed": ((Who(4, "borg01x154"),), -9, "slurm"),
    "srun: error: n[01-02]: tasks 0,7: Segmentation fault (core dumped)": ((Who(0), Who(7)), -11, "slurm"),
    "srun: error: node001: task 0: Exited with exit code 137": ((Who(0, "node001"),), -9, "slurm"),
    "bash: line 1:  4711 Killed                  python train.py": ((Who(pid=4711),), -9, "shell"),
    "run.sh: line 12: 4711 Segmentation fault      (core dumped) python train.py": ((Who(pid=4711),), -11, "shell"),
    "run.sh: line 12: 4711 Terminated              python train.py": ((Who(pid=4711),), -15, "shell"),
    "run.sh: line 12: 4711 Hangup                  python train.py": ((Who(pid=4711),), -1, "shell"),
    "run.sh: line 12: 4711 Aborted                 python train.py": ((Who(pid=4711),), -6, "shell"),
    "Aborted": ((Who(),), -6, "shell"),
    "Illegal instruction": ((Who(),), -4, "shell"),
    "subprocess.CalledProcessError: Command '[...]' died with <Signals.SIGKILL: 9>.": ((Who(),), -9, "shell"),
    "subprocess.CalledProcessError: Command '[...]' returned non-zero exit status 2.": ((Who(),), 2, "shell"),
    "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGABRT": ((Who(local_rank=1),), -6, "spawn"),
    "[launch.py:434:sigkill_handler] ['python', 'main.py', '--local_rank=0'] exits with return code = -9": ((Who(local_rank=0),), -9, "deepspeed"),
    "[launch.py:434:sigkill_handler] ['python', 'main.py', '--local_rank=7'] exits with return code = -9": ((Who(),), -9, "deepspeed"),
    "ERROR:composer.cli.launcher:Rank 2 crashed with exit code -7.": ((Who(2),), -7, "composer"),
    "ERROR:composer.cli.launcher:Global rank 0 (PID 208865) exited with code -11": ((Who(0, pid=208865),), -11, "composer"),
    "mpirun noticed that process rank 5 with PID 77 on node n2 exited on signal 11 (Segmentation fault).": ((Who(5, "n2", pid=77),), -11, "mpi"),
    "mpirun noticed that process rank 1 with PID xxxxx on node n2 exited on signal 9 (Killed).": ((Who(1, "n2"),), -9, "mpi"),
    "x3005c0s31b0n0.hsn.cm.polaris.alcf.anl.gov: rank 3 died from signal 11 and dumped core": ((Who(3, "x3005c0s31b0n0.hsn.cm.polaris.alcf.anl.gov"),), -11, "mpich"),
    "node7: rank 2 died from signal 15": ((Who(2, "node7"),), -15, "mpich"),
    "Process 0 exit with status code 137.": ((Who(0),), -9, "horovod"),
    "worker-3 exited with code 137": ((Who(node="worker-3"),), -9, "compose"),
    "supervisor: trainer-1 (pid 19137) ended with exit code -9; stopping the others": ((Who(node="trainer-1", pid=19137),), -9, "process"),
    "Process SpawnProcess-2:": ((Who(node="SpawnProcess-2"),), 1, "process"),


    "[launch.py:325:sigkill_handler] ['/usr/bin/python', 'main.py'] exits with return code = -9": ((Who(),), -9, "deepspeed"),
}  # fmt: skip
WRAPPED = {
    "Process exited with code 1": 1,
    "Process exited with status 3": 3,
    "exit code: 1": 1,
    "exit status 0": 0,
    "The script failed with return code -11": -11,
    "##[error]Process completed with exit code 2.": 2,
    "command terminated with exit code 137": -9,
    "The replica workerpool0-0 exited with a non-zero status of 1. ": 1,
    "ERROR: Job failed: exit code 1": 1,
    "ERROR: Job 1 failed with return code list: [0, 3]": 3,
    "ERROR: failed to reproduce 'train': failed to run: python train.py, exited with 1": 1,
    "error: Recipe `train` failed on line 12 with exit code 101": 101,
    "make: *** [Makefile:12: train] Error 1": 1,
    "gmake[1]: *** [train] Segmentation fault (core dumped)": -11,
    "Command exited with non-zero status 1": 1,
    "Command terminated by signal 9": -9,
    "\tExit status: 0": 0,
    "Exited with exit code 140.": -12,
    "Exited by signal 9.": -9,
    "exit_status  137                 (Killed)": -9,
    "\t(1) Normal termination (return value 1)": 1,
    "\t(0) Abnormal termination (signal 11)": -11,
    "State: FAILED (exit code 1)": 1,
    "State: COMPLETED (exit code 0)": 0,
    "12345.0          python                FAILED      1:0 ": 1,
    "12345            train        gpu     FAILED      0:9 ": -9,
    "systemd[1]: train.service: Main process exited, code=killed, status=9/KILL": -9,
    "systemd[1]: train.service: Main process exited, code=exited, status=1/FAILURE": 1,
    "INFO exited: train (exit status 1; not expected)": 1,
    "INFO exited: train (terminated by SIGSEGV (core dumped); not expected)": -11,
    "wandb: Waiting for W&B process to finish... (failed 1). Press Control-C to abort syncing.": 1,
    "wandb: Waiting for W&B process to finish, PID 16892... (failed 255). Press ctrl-c to abort syncing.": -2,
    "wandb: Waiting for W&B process to finish... (success).": 0,
    "^C": -2,
    "Epoch 3:  14%|###    | 2/14 [00:00<00:05,  2.39it/s]^C^C": -2,
}


@pytest.mark.parametrize("line", WRAPPED)
def test_what_ran_the_program_tells_how_it_ended(line: str) -> None:
    assert ends(line) == ((Who(),), WRAPPED[line], "wrapper", None, None)


@pytest.mark.parametrize("line", TOLD)
def test_an_end_is_read(line: str) -> None:
    found = ends(line)
    assert found is not None
    assert (found.about, found.code, found.teller) == TOLD[line]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Process 3:",
        "Process SpawnProcess-2: started",
        "Killed the old log",
        "Aborted!",
        "Aborted by the user",
        "Terminated",
        "exit code of the build",
        "task 3: done",
        "the loss was killed: 3",
        "make: *** [Makefile:12: clean] Error 1 (ignored)",
        "the job of 3 workers exited with a message",
        "State: RUNNING (exit code 0)",
        "12 tests FAILED 1:0 in all",
        "press ^C to stop",
        "job 12 completed with status 200",
        "exit code: 1 of the last process is printed",
        "systemd[1]: train.service: Main process exited, code=killed, status=0/KILL",  # a signal that there is not
        "(0) Abnormal termination (signal 0)",
        "exited: train (terminated by SIGNONE; not expected)",
    ],
)
def test_what_is_no_end_is_none(line: str) -> None:
    assert ends(line) is None


def test_codes_and_signals() -> None:
    assert [as_code(status) for status in (0, 1, 128, 137, 139, 255)] == [0, 1, 128, -9, -11, 255]
    assert [signal_number(name) for name in ("SIGKILL", "Killed", "15", "SIGNOTHING")] == [9, 9, 15, None]


@pytest.mark.parametrize(
    "lines",
    [
        ("  Process name: [[29973,1],3]", "  Exit code:    1"),
        ("<> [2021-12-07 10:43:01] 087c0ee7 || Exit code: 1", "<> [2021-12-07 10:43:01] 087c0ee7 || Process name: 3"),
    ],
)
def test_an_end_that_is_told_on_two_lines(lines: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text("mpirun detected that a process ended:\n\n" + "\n".join(lines) + "\n")
    told = read_logs([tmp_path]).endings
    assert [(one.about.rank, one.code, one.teller) for one in told] == [(3, 1, "mpi")]


RULE = "=" * 83


@pytest.mark.parametrize(
    ("name", "end", "told"),
    [
        ("RANK 1 PID 65033 RUNNING AT mommint", "KILLED BY SIGNAL: 9 (Killed)", (Who(1, "mommint", pid=65033), -9)),
        ("PID 12196 RUNNING AT e16", "EXIT CODE: 139", (Who(None, "e16", pid=12196), -11)),
        ("RANK 2 PID 7 RUNNING AT gn59", "EXIT STATUS: 1", (Who(2, "gn59", pid=7), 1)),
    ],
)
def test_the_box_of_hydra_is_read(name: str, end: str, told: tuple[Who, int], tmp_path: Path) -> None:
    box = f"{RULE}\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   {name}\n=   {end}\n{RULE}\n"
    (tmp_path / "run.log").write_text(box)
    assert [(one.about, one.code, one.teller) for one in read_logs([tmp_path]).endings] == [(*told, "mpich")]


def test_a_service_that_is_running_at_an_address_has_not_ended(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text("=   PID 12 RUNNING AT e16\nloss 0.5\n=   EXIT CODE: 1\n")
    assert not read_logs([tmp_path]).endings


def test_a_name_or_a_code_alone_is_no_end(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text("Process name: 3\nloss 0.5\nloss 0.4\nExit code:\n")
    assert not read_logs([tmp_path]).endings


TABLE = """\
[rank0]: x
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2024-01-01_12:00:09
  host      : nodeB
  rank      : 9 (local_rank: 1)
  exitcode  : -6 (pid: 902)
  error_file: <N/A>
  traceback : Signal 6 (SIGABRT) received by PID 902
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2024-01-01_12:00:04
  host      : nodeB
  rank      : 8 (local_rank: 0)
  exitcode  : 1 (pid: 901)
  error_file: /tmp/x/error.json
  traceback : Traceback (most recent call last):
    File "/app/train.py", line 3, in main
      raise ValueError("bad")
  ValueError: bad

============================================================
"""


def test_the_table_of_torchrun_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "agent.log").write_text(TABLE)
    told = {one.about.rank: one for one in read_logs([tmp_path]).endings if one.teller == "torchrun"}
    assert sorted(rank for rank in told if rank is not None) == [8, 9]
    first, other = told[8], told[9]
    assert (first.about, first.code, first.time_error) == (Who(8, "nodeB", 0, None, 901), 1, 1.0)
    assert first.message is not None
    assert "ValueError: bad" in first.message
    assert (other.code, other.about.pid) == (-6, 902)
    assert first.time is not None
    assert other.time is not None
    # Within its second, the root cause is the first.
    assert other.time - first.time == 5.5


TRACE = (
    'Process {}:\nTraceback (most recent call last):\n  File "/job/train.py", line 9, in work\n    dist.barrier()\n'
    '  File "/venv/torch/distributed/distributed_c10d.py", line 5, in barrier\nValueError: no\n'
)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("trainer-0", "trainer-2"), [0, 2, 1]),
        (("worker_1", "worker_0"), [1, 0, 1]),
        (("SpawnProcess-1", "SpawnProcess-3"), [0, 2]),
        # From where they count is not known, and what these do is not known either.
        (("trainer-1", "trainer-2"), []),
        (("SpawnProcess-2", "SpawnProcess-3"), []),
        (("loader-0", "loader-1"), []),
    ],
)
def test_processes_that_bear_names_are_ranks_where_the_first_of_them_is_seen(
    names: tuple[str, str], told: list[int], tmp_path: Path
) -> None:
    last = names[0].rstrip("0123") + "1 (pid 41) exited with code 1, stopping\n" if told[2:] else ""
    (tmp_path / "run.log").write_text("".join(TRACE.format(name) for name in names) + last)
    assert [one.about.rank for one in read_logs([tmp_path]).endings] == told


def test_environments_that_one_process_starts_are_no_ranks(tmp_path: Path) -> None:
    text = "".join(TRACE.format(f"ForkServerProcess-{number}") for number in (1, 2, 3))
    (tmp_path / "run.log").write_text(text.replace("/venv/torch/distributed/distributed_c10d.py", "/venv/vec_env.py"))
    assert read_logs([tmp_path]).endings == ()


def test_a_named_process_of_which_nothing_tells_the_rank_is_known_by_its_number(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text("trainer-2 (pid 4711) died with exit code -9\n")
    assert [(one.about, one.code) for one in read_logs([tmp_path]).endings] == [(Who(pid=4711), -9)]
