"""Memory is read from the allocator's books now and then, for every device that has any, and never fails a run."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from preflight.monitor.collect import memory as room
from preflight.monitor.collect.memory import HOST, Memory, resident_bytes
from preflight.monitor.collect.recorder import Recorder
from preflight.monitor.collect.settings import Settings

from .recording import Kept

GIB = 1 << 30


class Cuda:
    """Devices with books as torch keeps them."""

    def __init__(self, *held: tuple[int, int, int]) -> None:
        self.held = held
        self.asked = 0

    def is_initialized(self) -> bool:
        return True

    def device_count(self) -> int:
        return len(self.held)

    def get_device_properties(self, index: int) -> Any:
        return SimpleNamespace(total_memory=80 * GIB)

    def memory_stats_as_nested_dict(self, index: int) -> dict[str, Any]:
        self.asked += 1
        now, segments, peak = self.held[index]
        if not segments:
            return {}
        return {
            "allocated_bytes": {"all": {"current": now, "peak": peak, "allocated": 0, "freed": 0}},
            "reserved_bytes": {"all": {"current": segments, "peak": segments}},
        }


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which stands still until a test moves it."""
    time = [100.0]
    monkeypatch.setattr(room, "clock", lambda: time[0])
    return time


def recorder_with(cuda: Any) -> tuple[Recorder, Kept]:
    kept = Kept()
    recorder = Recorder(Settings(""), lambda _: kept)
    recorder.torch = SimpleNamespace(cuda=cuda)
    return recorder, kept


def test_every_device_that_holds_something_is_told_with_its_size(now: list[float]) -> None:
    recorder, kept = recorder_with(Cuda((3 * GIB, 4 * GIB, 6 * GIB), (0, 0, 0)))
    recorder.iteration, recorder.step = 7, 5
    Memory(recorder).boundary()
    (row,) = [row for row in kept.table("memory") if row["device"] != HOST]
    told = {name: value for name, value in row.items() if name not in ("q", "t")}
    assert told == {
        "i": 7, "s": 5, "device": "cuda:0", "allocated": 3 * GIB, "reserved": 4 * GIB, "peak": 6 * GIB,
        "peak_reserved": 4 * GIB, "capacity": 80 * GIB, "resident": None,
    }  # fmt: skip


def test_it_is_read_at_most_a_few_times_a_second(now: list[float]) -> None:
    cuda = Cuda((1, 2, 3))
    recorder, _ = recorder_with(cuda)
    memory = Memory(recorder)
    for _ in range(100):
        memory.boundary()
    assert cuda.asked == 1
    now[0] += room.EVERY
    memory.boundary()
    assert cuda.asked == 2


def test_a_device_that_cannot_be_asked_is_left_alone_after_a_while(now: list[float]) -> None:
    class Broken(Cuda):
        def memory_stats_as_nested_dict(self, index: int) -> dict[str, Any]:
            self.asked += 1
            raise RuntimeError("no device")

    cuda = Broken((1, 2, 3))
    recorder, kept = recorder_with(cuda)
    memory = Memory(recorder)
    for _ in range(100):
        now[0] += room.EVERY
        memory.boundary()
    assert "memory" not in kept.rows
    assert 0 < cuda.asked < 50
    assert "no device" in kept.table("trouble")[0]["error"]


def test_where_cuda_has_not_begun_it_is_not_begun(now: list[float]) -> None:
    cuda = SimpleNamespace(is_initialized=lambda: False)  # nothing else may be asked
    recorder, kept = recorder_with(cuda)
    Memory(recorder).boundary()
    assert {row["device"] for row in kept.table("memory")} <= {HOST}
    assert "trouble" not in kept.rows


def test_a_watchdog_that_ends_the_program_does_not_wait_for_the_allocator() -> None:
    cuda = Cuda((1, 2, 3))
    recorder, _ = recorder_with(cuda)
    recorder.trained = True
    memory = Memory(recorder)
    thread = threading.Thread(target=memory.end)
    thread.start()
    thread.join()
    assert cuda.asked == 0
    memory.end()
    assert cuda.asked == 1


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the pages of a process are read on Linux")
def test_the_pages_of_the_process_follow_what_it_holds() -> None:
    before = resident_bytes()
    held = bytearray(b"x") * (64 << 20)
    after = resident_bytes()
    assert before is not None
    assert after is not None
    assert 48 << 20 < after - before < 256 << 20
    assert len(held) == 64 << 20


def test_a_program_that_trained_nothing_leaves_no_file(now: list[float]) -> None:
    recorder, kept = recorder_with(Cuda((1, 2, 3)))
    memory = Memory(recorder)
    memory.end()
    assert kept.rows == {}
    recorder.trained = True
    memory.end()
    assert {row["device"] for row in kept.table("memory")} >= {"cuda:0"}


def test_a_worker_tells_nothing(now: list[float]) -> None:
    recorder, kept = recorder_with(Cuda((1, 2, 3)))
    recorder.role = "worker"
    Memory(recorder).boundary()
    assert kept.rows == {}
