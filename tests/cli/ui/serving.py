"""The server in a thread, and a reader of its stream."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from preflight.monitor.library_of import shipped


class Served:
    """A server that runs.

    Attributes:
        port: Where it listens.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}/"

    def get(
        self, path: str, headers: Mapping[str, str] | None = None, method: str = "GET"
    ) -> tuple[int, dict[str, str], str]:
        """Ask for something: the status, the headers, and the text."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with contextlib.closing(connection):
            connection.putrequest(method, path, skip_host="Host" in (headers or {}))
            for name, value in (headers or {}).items():
                connection.putheader(name, value)
            connection.endheaders()
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read().decode()

    @contextlib.contextmanager
    def stream(self, query: str = "") -> Iterator[Stream]:
        """Listen to the events."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", f"/events{query}")
        try:
            yield Stream(connection.getresponse())
        finally:
            connection.close()


class Stream:
    """The events of one connection.

    Attributes:
        last: The last message of each kind.
        count: How many messages of each kind came.
    """

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.answer = answer
        self.last: dict[str, Any] = {}
        self.count: dict[str, int] = {}

    def until(self, true: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """Read until a whole frame makes something true; the last message of each kind."""
        name, whole, limit = "", "frame" in self.last, time.monotonic() + 60
        while not whole or not true(self.last):
            line = self.answer.readline().decode()
            assert line, f"the stream has ended after {self.count}"
            assert time.monotonic() < limit, self.last
            if line.startswith("event: "):
                name = line[7:].strip()
            elif line.startswith("data: "):
                self.last[name] = json.loads(line[6:])
                self.count[name] = self.count.get(name, 0) + 1
                whole = name == "frame"
        return self.last


@contextlib.contextmanager
def served(root: Path) -> Iterator[Served]:
    """Serve the recordings of a folder."""
    from preflight.cli.ui_.serve import Server, listen

    there = threading.Event()
    listening = listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    server = Server(root, shipped(), "127.0.0.1", there.set)
    thread = threading.Thread(target=server.serve_on, args=(listening,))
    thread.start()
    try:
        assert there.wait(60)
        yield Served(port)
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()
