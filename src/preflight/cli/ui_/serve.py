"""Serves the page: an address that is free, told to the person, until Ctrl-C."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn

from preflight.cli.ui_.app import make_app
from preflight.cli.ui_.feed import Feeds
from preflight.errors import UsageError
from preflight.vocabulary.invariant import Invariant

PORT = 8766
"""The port that is tried first."""
_NEAR = 64
"""Ports after one that is taken among which a free one is looked for."""
_LOCAL = ("127.0.0.1", "::1", "localhost")


class Server(uvicorn.Server):
    """A server whose streams end when it is asked to stop."""

    def __init__(
        self,
        root: Path,
        invariants: Sequence[Invariant],
        host: str,
        ready: Callable[[], None] = lambda: None,
        kept: bool = True,
    ) -> None:
        """Take what is shown, what must hold (but in runs that keep what they are held against), the address, whom to tell."""
        self.feeds = Feeds(invariants, kept)
        app = make_app(root, self.feeds, names=[host], stopping=lambda: self.should_exit)
        super().__init__(
            uvicorn.Config(
                app, log_level="critical", access_log=False, lifespan="off", server_header=False,
                timeout_graceful_shutdown=2,
            )
        )  # fmt: skip
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        await super().startup(sockets=sockets)
        self._ready()

    def serve_on(self, listening: socket.socket) -> None:
        """Serve until somebody asks to stop."""
        try:
            self.run(sockets=[listening])
        finally:
            self.feeds.close()
            listening.close()


def listen(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens: on the port, or, where none is asked for, on the first free one.

    Raises:
        UsageError: The port is taken, or the host is none of this machine.
    """
    asked = PORT if port is None else port
    try:
        return _bound(host, asked)
    except (OSError, OverflowError) as error:
        if isinstance(error, socket.gaierror) or not _is_taken(error):
            why = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise UsageError(f"--host {host}, port {asked}: cannot be listened on: {why}") from None
    for near in range(asked + 1, min(asked + _NEAR, 65_535)):
        try:
            found = _bound(host, near)
        except OSError:
            continue
        if port is None:
            return found
        found.close()
        raise UsageError(f"port {port} is in use", f"--port {near} is free; --port 0 takes any that is")
    raise UsageError(f"port {asked} is in use", "--port 0 takes any that is free")


def address(host: str, listening: socket.socket) -> str:
    """Return the address of the page for a browser on this machine."""
    port = listening.getsockname()[1]
    shown = "localhost" if host in ("127.0.0.1", "0.0.0.0", "::", "::1", "localhost") else host
    return f"http://[{shown}]:{port}/" if ":" in shown else f"http://{shown}:{port}/"


def is_local(host: str) -> bool:
    """Whether only this machine reaches what listens on a host."""
    return host in _LOCAL or host.startswith("127.")


def open_browser(url: str) -> None:
    """Open the page, from a thread of its own: a browser in a terminal would hold the server up."""
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(url,), name="preflight ui browser", daemon=True).start()


def _bound(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
        0
    ]
    made = socket.socket(family, kind, protocol)
    try:
        # A port that was just left can be taken again; one that somebody listens on cannot.
        if sys.platform != "win32":  # there it would let two listen on one port
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(place)
        made.listen(128)
    except BaseException:
        made.close()
        raise
    return made


def _is_taken(error: Exception) -> bool:
    import errno

    return isinstance(error, OSError) and error.errno == errno.EADDRINUSE
