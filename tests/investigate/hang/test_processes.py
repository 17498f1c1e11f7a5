from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from preflight.investigate.hang.processes import RankProcess, find_ranks, jobs_of, refreshed
from preflight.investigate.hang.taking import catches

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are found in /proc")

SLEEPS = "import time; time.sleep(600)"
WITH_WORKER = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); time.sleep(600)"
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def run(*command: str, **variables: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(command, env={**os.environ, **variables}, start_new_session=True)
        started.append(process)
        return process

    yield run
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def found(*pids: int, count: int, job: str) -> tuple[RankProcess, ...]:
    """Return the ranks of a job, once so many processes of it are there."""
    for _ in range(200):
        ranks = jobs_of(find_ranks(pids)).get(job, ())
        if len(ranks) == count:
            break
        time.sleep(0.05)
    return ranks


def variables(rank: int, job: str) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "h",
        "MASTER_PORT": job,
    }


def test_ranks_are_found_by_their_variables(start: Start) -> None:
    first = start(sys.executable, "-c", SLEEPS, **variables(0, "7001"))
    second = start(sys.executable, "-c", SLEEPS, **variables(1, "7001"))
    ranks = found(count=2, job="h 7001")
    assert [(one.rank, one.pid, one.local_rank, one.world_size) for one in ranks] == [
        (0, first.pid, 0, 2),
        (1, second.pid, 1, 2),
    ]
    assert "time.sleep" in ranks[0].command


def test_what_a_rank_starts_is_no_rank(start: Start) -> None:
    parent = start(sys.executable, "-c", WITH_WORKER, **variables(0, "7002"))
    time.sleep(1.0)
    assert [one.pid for one in found(count=1, job="h 7002")] == [parent.pid]


def test_a_shell_around_the_program_is_no_rank(start: Start) -> None:
    shell = start("bash", "-c", f'{sys.executable} -c "{SLEEPS}"; true', **variables(0, "7003"))
    for _ in range(200):
        ranks = found(count=1, job="h 7003")
        if ranks and "bash" not in ranks[0].command:
            break
        time.sleep(0.05)
    assert len(ranks) == 1
    assert ranks[0].pid != shell.pid
    assert "bash" not in ranks[0].command


def test_a_launcher_stands_for_the_ranks_that_it_started(start: Start) -> None:
    program = f"import os, subprocess, sys, time\nfor rank in '01': subprocess.Popen([sys.executable, '-c', {SLEEPS!r}], env=dict(os.environ, RANK=rank, MASTER_PORT='7004'))\ntime.sleep(600)"
    launcher = start(sys.executable, "-c", program)
    other = start(sys.executable, "-c", SLEEPS, **variables(0, "7005"))
    ranks = found(launcher.pid, count=2, job="7004")
    assert [one.rank for one in ranks] == [0, 1]
    assert other.pid not in {one.pid for one in ranks}


def test_a_stopped_and_an_ended_process_are_told(start: Start) -> None:
    process = start(sys.executable, "-c", SLEEPS, **variables(0, "7006"))
    (rank,) = found(count=1, job="h 7006")
    process.send_signal(signal.SIGSTOP)
    for _ in range(100):
        if refreshed(rank).state == "T":
            break
        time.sleep(0.02)
    assert refreshed(rank).state == "T"
    process.kill()
    process.wait()
    assert refreshed(rank).state == "X"


def test_a_signal_is_not_sent_to_a_process_that_it_would_end(start: Start) -> None:
    handles = "import signal, time; signal.signal(signal.SIGUSR1, lambda *_: None); time.sleep(600)"
    plain, handling = start(sys.executable, "-c", SLEEPS), start(sys.executable, "-c", handles)
    for _ in range(200):
        if catches(handling.pid, signal.SIGUSR1):
            break
        time.sleep(0.05)
    assert catches(handling.pid, signal.SIGUSR1)
    assert not catches(plain.pid, signal.SIGUSR1)


def test_a_process_that_is_gone_is_no_error() -> None:
    assert find_ranks([2**22 + 1]) == ()
    assert not catches(2**22 + 1, signal.SIGUSR1)
