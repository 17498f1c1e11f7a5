from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from preflight.errors import UsageError
from preflight.investigate.liveness.board import endpoint_of
from preflight.investigate.liveness.bounded import Bounded, StoreSilent
from preflight.investigate.liveness.observer import Beats, observe
from preflight.investigate.liveness.process import look, myself

HERE = Path(__file__).parent
BUSY = 10.0
"""What is allowed beyond the deadline and two seconds where the machine runs other tests at the same time."""
linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at /proc")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_heart_that_moves_is_not_silent_and_one_that_stands_still_is() -> None:
    beats = Beats([0, 1], now=0.0)
    for second in range(6):
        beats.see({0: 10 + second, 1: 7}, now=float(second))
    assert beats.silent(5.0, deadline=4.0) == [1]
    assert beats.moved == {0}
    beats.see({0: 15, 1: 8}, now=6.0)
    assert beats.silent(6.5, deadline=4.0) == []


def test_what_never_appeared_is_silent_from_the_beginning() -> None:
    beats = Beats([0], now=100.0)
    assert beats.silent(103.0, deadline=4.0) == []
    assert beats.silent(104.0, deadline=4.0) == [0]


def test_a_call_that_does_not_come_back_is_given_up_and_the_next_fails_at_once() -> None:
    bounded = Bounded()
    assert bounded.call(lambda: 7, 5.0) == 7
    with pytest.raises(StoreSilent, match="did not answer within"):
        bounded.call(lambda: time.sleep(60), 0.1)
    with pytest.raises(StoreSilent, match="does not answer"):
        bounded.call(lambda: 8, 60.0)


def test_what_the_store_raises_is_told_in_one_line() -> None:
    def fail() -> None:
        raise RuntimeError("Broken pipe\nException raised from ...")

    with pytest.raises(StoreSilent, match=r"the store: Broken pipe$"):
        Bounded().call(fail, 5.0)


@pytest.mark.parametrize("text", ["node0", "node0:", ":29500", "node0:port", "node0:99999"])
def test_a_store_is_a_host_and_a_port(text: str) -> None:
    with pytest.raises(UsageError):
        endpoint_of(text)


def test_the_store_of_torchrun_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER_ADDR", "node0")
    monkeypatch.setenv("MASTER_PORT", "29500")
    assert endpoint_of(None) == ("node0", 29500)
    assert endpoint_of("[fd00::2]:29501") == ("fd00::2", 29501)
    monkeypatch.delenv("MASTER_PORT")
    with pytest.raises(UsageError, match="MASTER_PORT"):
        endpoint_of(None)


@linux
def test_a_process_is_seen_to_be_there_stopped_and_gone() -> None:
    assert look(myself()) == "there"
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        who = {**myself(), "pid": child.pid, "began": None}
        assert look(who) == "there"
        os.kill(child.pid, signal.SIGSTOP)
        os.waitpid(child.pid, os.WUNTRACED)
        assert look(who) == "stopped"
        assert look({**who, "began": 1}) == "gone", "its number belongs to another process now"
        assert look({**who, "place": "elsewhere"}) is None
    finally:
        child.kill()
        child.communicate()
    assert look(who) == "gone"


@contextmanager
def eight(ends: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    port = free_port()
    line = [sys.executable, str(HERE / "eight_ranks.py"), str(port), ends]
    run = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert run.stdout is not None
        assert run.stdout.readline() == "ready\n"
        yield port, run
    finally:
        os.killpg(run.pid, signal.SIGKILL)
        run.communicate()


def strike(run: subprocess.Popen[str]) -> None:
    assert run.stdin is not None
    assert run.stdout is not None
    run.stdin.write("go\n")
    run.stdin.flush()
    assert run.stdout.readline() == "struck\n"


@pytest.mark.torch
@pytest.mark.slow
@linux
def test_of_eight_ranks_the_killed_the_stopped_and_the_missing_are_named_in_time() -> None:
    pytest.importorskip("torch")
    with eight("kill:3,stop:5,leave:1,never:7") as (port, run):
        strike(run)
        began = time.monotonic()
        pulses = observe(("127.0.0.1", port), deadline=3.0)
        assert time.monotonic() - began < 3.0 + 2.0 + BUSY
        states = {pulse.rank: pulse.state for pulse in pulses}
        assert states == {
            0: "alive", 1: "left", 2: "alive", 3: "gone", 4: "alive", 5: "stopped", 6: "alive", 7: "absent",
        }  # fmt: skip
        assert [pulse.rank for pulse in pulses if pulse.lost] == [3, 5, 7]
        assert pulses[3].pid
        assert pulses[3].node == socket.gethostname()


@pytest.mark.torch
@pytest.mark.slow
@linux
def test_a_store_that_is_stopped_or_gone_is_named_and_nobody_waits_for_it() -> None:
    pytest.importorskip("torch")
    with eight("stall:4") as (port, run):
        stalled = observe(("127.0.0.1", port), deadline=2.0, stall=True)
        assert {pulse.rank for pulse in stalled if pulse.state == "stalled"} == {4}
        os.kill(run.pid, signal.SIGSTOP)  # the process in which the store lives
        began = time.monotonic()
        with pytest.raises(StoreSilent, match=f"127.0.0.1:{port}"):
            observe(("127.0.0.1", port), deadline=2.0)
        assert time.monotonic() - began < 2.0 + 2.0 + BUSY
    began = time.monotonic()
    with pytest.raises(StoreSilent):
        observe(("127.0.0.1", port), deadline=2.0)
    assert time.monotonic() - began < 2.0 + 2.0 + BUSY


@pytest.mark.torch
@pytest.mark.slow
def test_a_roll_call_names_who_does_not_answer_and_says_so_to_everybody() -> None:
    dist = pytest.importorskip("torch.distributed")
    from preflight.investigate.liveness import roll_call

    store = dist.TCPStore("127.0.0.1", free_port(), is_master=True, wait_for_workers=False)
    assert roll_call(store, 0, 3, "first", deadline=0.3) == (1, 2)
    assert roll_call(store, 2, 3, "first", deadline=0.3) == (1,)
    assert roll_call(store, 1, 3, "first", deadline=0.3) == ()
