"""Threads that train at the same time are not read in each other's passes; threads that take turns are recorded."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import Kept, recorded  # noqa: E402

from preflight.monitor.collect.entry import Work  # noqa: E402
from preflight.monitor.collect.session import Session  # noqa: E402
from preflight.monitor.collect.settings import Settings  # noqa: E402

pytestmark = pytest.mark.torch
_LONG = 60.0


class Waits(torch.autograd.Function):  # type: ignore[misc]
    """Hands its gradient on once it may."""

    @staticmethod
    def forward(ctx: Any, x: Any, reached: threading.Event, go: threading.Event) -> Any:
        ctx.reached, ctx.go = reached, go
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        ctx.reached.set()
        assert ctx.go.wait(_LONG)
        return gradient, None, None


class Trained:
    """A model of its own with its optimizer."""

    def __init__(self) -> None:
        self.model = torch.nn.Linear(4, 4)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def loss(self) -> Any:
        return self.model(torch.ones(2, 4)).sum()

    def train(self) -> None:
        self.optimizer.zero_grad()
        self.loss().backward()
        self.optimizer.step()


def aside(*work: Callable[[], None]) -> None:
    """Do each in a thread of its own, one after the other."""
    for one in work:
        thread = threading.Thread(target=one)
        thread.start()
        thread.join()


def halted(kept: Kept) -> bool:
    return [row["where"] for row in kept.table("trouble")] == ["threads"]


@pytest.mark.parametrize("meanwhile", ["train", "clear", "step"])
def test_nothing_is_read_while_another_thread_goes_backward(meanwhile: str) -> None:
    one, other = Trained(), Trained()
    other.train()
    reached, go = threading.Event(), threading.Event()
    reads: list[int] = []

    def slowly() -> None:
        Waits.apply(one.loss(), reached, go).backward()

    with recorded() as kept:
        one.train()
        other.train()
        thread = threading.Thread(target=slowly)
        thread.start()
        assert reached.wait(_LONG)
        before = len(kept.calls())
        try:
            {"train": other.train, "clear": other.optimizer.zero_grad, "step": other.optimizer.step}[meanwhile]()
        finally:
            go.set()
            thread.join()
        reads.append(len(kept.calls()) - before)
        other.train()
        one.train()
        reads.append(len(kept.calls()) - before)
    assert halted(kept)
    # What ends after the halt may still be told, and nothing that begins after it.
    names = [row["name"] for row in kept.calls()[before:]]
    assert names.count("step") == 0
    assert reads[1] <= reads[0] + 1
    assert kept.table("end")


@pytest.mark.parametrize("then", ["waits", "sleeps", "clears"])
def test_gradients_are_read_only_while_others_that_train_rest(then: str) -> None:
    if then == "sleeps" and not Path("/proc/self/task").is_dir():
        pytest.skip("the operating system does not tell which threads sleep")
    one, other = Trained(), Trained()
    trained, go, lock = threading.Event(), threading.Event(), threading.Lock()

    def trains_and_goes_on() -> None:
        other.train()
        trained.set()
        if then == "waits":
            assert go.wait(_LONG)
        elif then == "sleeps":
            lock.acquire()  # in no function of Python's
        while not go.is_set():
            other.model.weight.grad = None
            other.model.weight.grad = torch.ones(4, 4)

    lock.acquire()
    with recorded() as kept:
        thread = threading.Thread(target=trains_and_goes_on)
        thread.start()
        try:
            assert trained.wait(_LONG)
            one.train()
            one.train()
        finally:
            go.set()
            lock.release()
            thread.join()
    assert halted(kept) is (then == "clears")
    assert len(kept.calls("step")) == (1 if then == "clears" else 3)


def test_a_clearing_waits_for_who_reads_gradients() -> None:
    recorder = Session(Settings("")).recorder
    reading = threading.Event()
    order: list[str] = []

    def reads() -> None:
        with Work(recorder, "reads"):
            assert recorder.trainers.safe()
            reading.set()
            time.sleep(0.05)
            order.append("read")

    thread = threading.Thread(target=reads)
    thread.start()
    assert reading.wait(_LONG)
    with Work(recorder, "clears"):
        assert recorder.trainers.clears()
        order.append("cleared")
        aside(lambda: order.append("safe" if recorder.trainers.safe() else "not safe"))
    recorder.trainers.ended()
    thread.join()
    assert recorder.trainers.safe()
    assert order == ["read", "cleared", "not safe"]


def test_passes_of_threads_that_lie_between_each_others_steps_end_the_recording() -> None:
    one, other = Trained(), Trained()
    with recorded() as kept:
        one.train()
        one.loss().backward()
        aside(other.train)
        one.optimizer.step()
    assert halted(kept)


def test_threads_that_begin_at_once_write_into_one_file() -> None:
    together = threading.Barrier(4)
    opened: list[Kept] = []

    def opening(recorder: Any) -> Kept:
        time.sleep(0.05)  # so that all of them come before it is open
        opened.append(Kept())
        return opened[-1]

    def begin() -> None:
        together.wait(_LONG)
        recorder.put("trouble", (0, 0, "nowhere", "nothing"))

    recorder = Session(Settings("")).recorder
    recorder._open_sink = opening
    threads = [threading.Thread(target=begin) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(kept.table("trouble")) for kept in opened] == [4]


def test_threads_that_take_turns_are_recorded() -> None:
    one, other = Trained(), Trained()
    with recorded() as kept:
        for _ in range(3):
            one.train()
            aside(one.train, other.train)
            aside(lambda: one.loss().backward(), lambda: other.loss().backward())
            one.optimizer.step()
            other.optimizer.step()
    assert not kept.table("trouble")
    assert len(kept.calls("step")) == 15


def test_a_pass_within_a_pass_and_one_that_fails_are_those_of_one_thread() -> None:
    one = Trained()
    layer = torch.nn.Linear(4, 4)

    def again(x: Any) -> Any:
        return torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=True)

    with recorded() as kept:
        for _ in range(2):
            one.optimizer.zero_grad()
            again(one.model(torch.ones(2, 4))).sum().backward()
            one.optimizer.step()
            with pytest.raises(RuntimeError):
                torch.ones(2, requires_grad=True).backward()
    assert not kept.table("trouble")
    assert len(kept.calls("step")) == 2
