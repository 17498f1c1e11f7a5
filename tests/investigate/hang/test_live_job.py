"""A real job of four processes over gloo, one of which sleeps in its own code and one is stopped."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from preflight.investigate.hang import taking
from preflight.investigate.hang.judge import judge
from preflight.investigate.hang.look import look_at

pytest.importorskip("torch")
pytestmark = [
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are found in /proc"),
]
JOB = Path(__file__).parent / "scripts" / "job.py"
WORLD = 4


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[subprocess.Popen[bytes]]]:
    folder = tmp_path_factory.mktemp("job")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    started = []
    for rank in range(WORLD):
        variables = {
            "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(WORLD), "LOCAL_WORLD_SIZE": str(WORLD),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1", "TORCH_FR_BUFFER_SIZE": "100",
            "TORCH_WORKER_SERVER_SOCKET": str(folder / f"{rank}.sock"), "GLOO_SOCKET_IFNAME": "lo",
        }  # fmt: skip
        with open(folder / f"{rank}.err", "wb") as errors:
            started.append(
                subprocess.Popen(
                    [sys.executable, JOB, "2=sleep", "3=stop"], env={**os.environ, **variables}, stderr=errors
                )
            )
    try:
        _until_stopped(started[3])
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


def _until_stopped(process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 240
    while time.monotonic() < end and process.poll() is None:
        if Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T":
            time.sleep(3)  # the others run on to where they wait
            return
        time.sleep(0.5)
    pytest.fail("the job did not come to its third step")


def test_both_ranks_are_named_and_nothing_waits_for_ever(job: list[subprocess.Popen[bytes]]) -> None:
    if taking.tool() is None:
        pytest.skip("py-spy is not installed")
    began = time.monotonic()
    seen = look_at([process.pid for process in job], seconds=60)
    assert time.monotonic() - began < 75
    incident = judge(seen).incident
    assert incident.state == "hung"
    assert incident.culprit.ranks == (2, 3)
    assert "load_next_batch" in incident.headline
    assert any("state T" in reason.text for reason in incident.culprit.reasons)
    # The stopped one cannot answer; the others told what their recorders hold.
    assert {flight.who.rank for flight in seen.flights} == {0, 1, 2}
    assert any("rank 3: its recorder did not answer" in note for note in seen.notes)


def test_where_py_spy_may_not_look_a_signal_makes_the_program_print_its_stacks(
    job: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking, "tool", lambda: None)
    seen = look_at([process.pid for process in job], seconds=60, number=signal.SIGUSR1)
    assert {stack.who.rank for stack in seen.stacks} == {0, 1, 2}
    assert judge(seen).incident.culprit.ranks == (2, 3)
    assert all(process.poll() is None for process in job)
