"""A process on its way out is not cut off by an interrupt that comes once more."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from preflight.monitor.collect.bootstrap import _unhurried


@pytest.fixture(autouse=True)
def python_s_own_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def interrupt_twice() -> None:
    with _unhurried():
        interrupt()
        interrupt()


def test_one_interrupt_passes_and_the_next_is_heard() -> None:
    with _unhurried():
        interrupt()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        interrupt_twice()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_within_leaves_the_handler_as_it_was() -> None:
    with pytest.raises(ZeroDivisionError), _unhurried():
        _ = 1 / 0
    with pytest.raises(KeyboardInterrupt):
        interrupt()


def test_a_handler_of_the_program_stays() -> None:
    heard = []

    def own(number: int, frame: Any) -> None:
        heard.append(number)

    signal.signal(signal.SIGINT, own)
    with _unhurried():
        interrupt()
        assert signal.getsignal(signal.SIGINT) is own
    assert heard == [signal.SIGINT]


def test_another_thread_changes_no_handler() -> None:
    seen: list[Any] = []

    def leave() -> None:
        with _unhurried():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=leave)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]
