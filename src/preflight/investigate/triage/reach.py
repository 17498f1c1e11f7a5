"""Which other nodes can be reached: one connection each, all at once, with one deadline; nobody is waited for longer."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Literal

import msgspec

from preflight.errors import UsageError

State = Literal["open", "refused", "no answer", "no such name", "unreachable"]
WORDS = {
    "open": "answers",
    "refused": "is there, and nobody listens on the port",
    "no answer": "does not answer: it is down, or something between drops what is sent",
    "no such name": "has no address: its name is wrong, or the name service is away",
    "unreachable": "cannot be reached from here: no route",
}


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one connection.

    Attributes:
        host: As it was given. port: The port.
        state: What came of it.
        seconds: How long it took, where it was answered.
    """

    host: str
    port: int
    state: State
    seconds: float | None = None


def parse(given: Sequence[str], port: int = 22) -> list[tuple[str, int]]:
    """Return hosts and ports of ``host``, ``host:port`` or ``[address]:port``, separated by commas or given one by one.

    Raises:
        UsageError: A port is none.
    """
    found = []
    for word in ",".join(given).split(","):
        word = word.strip()
        if not word:
            continue
        host, colon, number = word.rpartition(":") if word.count(":") == 1 or word.startswith("[") else (word, "", "")
        if word.startswith("[") and word.endswith("]"):
            host, colon, number = word, "", ""
        if colon and not (number.isdigit() and 0 < int(number) < 65536):
            raise UsageError(f"{word!r}: {number!r} is no port", "a node is host or host:port")
        found.append((host.strip("[]"), int(number) if colon else port))
    return found


def reach(targets: Sequence[tuple[str, int]], deadline: float = 3.0) -> list[Reached]:
    """Connect to all of them; what has not answered by the deadline does not answer."""
    states: dict[int, Reached] = {}
    threads = [
        threading.Thread(target=_connect, args=(index, target, deadline, states), daemon=True)
        for index, target in enumerate(targets)
    ]
    for thread in threads:
        thread.start()
    end = time.monotonic() + deadline + 0.5  # a name service may take longer than the connection's own time-out
    for thread in threads:
        thread.join(max(end - time.monotonic(), 0.0))
    return [
        states.get(index, Reached(host=host, port=port, state="no answer"))
        for index, (host, port) in enumerate(targets)
    ]


def _connect(index: int, target: tuple[str, int], deadline: float, states: dict[int, Reached]) -> None:
    import socket

    host, port = target
    began = time.monotonic()
    seconds = None
    state: State
    try:
        socket.create_connection(target, timeout=deadline).close()
        state, seconds = "open", time.monotonic() - began
    except ConnectionRefusedError:
        state, seconds = "refused", time.monotonic() - began
    except socket.gaierror:
        state = "no such name"
    except TimeoutError:
        state = "no answer"
    except OSError:
        state = "unreachable"
    states[index] = Reached(host=host, port=port, state=state, seconds=seconds)
