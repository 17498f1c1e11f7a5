"""The pages and the stream behind them: what is served, to whom, and nothing that changes anything."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from preflight.cli.ui_.feed import Feeds, plain_json
from preflight.cli.ui_.stream import Stream, event
from preflight.monitor.dashboard.recordings import recordings

PAGE = Path(__file__).parent / "page"
STYLES = Path(__file__).parents[2] / "report" / "page" / "report.css"
_FILES = {
    "/": (PAGE / "page.html", "text/html"),
    "/report.css": (STYLES, "text/css"),
    "/page.css": (PAGE / "page.css", "text/css"),
    **{f"/{path.name}": (path, "text/javascript") for path in sorted(PAGE.glob("*.js"))},
}
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}
LOOK_EVERY = 0.2
"""Seconds between two looks for a new frame."""
LIST_EVERY = 2.0
"""Seconds between two looks for new recordings."""
_REST = 20
"""How much longer than a look for recordings takes it rests: a folder may hold very many others, or be far away."""
PING_EVERY = 10.0
"""Seconds of silence after which a connection says that it lives."""

_BRACKETED = re.compile(r"\[([^\[\]]*)\](?::\d*)?")

Scope = MutableMapping[str, Any]
Asgi = Callable[[Scope, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]


class Guard:
    """Answers only who asks for this machine, so that a page elsewhere cannot give its own name to this address.

    An address in numbers cannot be given away like that; names are those of this machine and the one that is listened on.
    """

    def __init__(self, app: Asgi, names: Iterable[str]) -> None:
        """Take what is guarded, and names by which it may be asked for besides those of this machine."""
        self._app = app
        self._names = {"localhost", socket.gethostname().lower(), *(name.lower() for name in names)}

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or not self.knows(hosts[0]):
            refused = PlainTextResponse("this page is not served under that name\n", 421, headers=HEADERS)
            await refused(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def knows(self, host: str) -> bool:
        """Whether a ``Host`` header names this machine."""
        name = host.strip().lower()
        bracketed = _BRACKETED.fullmatch(name)
        if bracketed is not None:
            name = bracketed[1]
        elif name.count(":") == 1:
            name = name.partition(":")[0]
        if name.rstrip(".") in self._names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def make_app(
    root: Path, feeds: Feeds, names: Iterable[str] = (), stopping: Callable[[], bool] = lambda: False
) -> Guard:
    """Return the application.

    Args:
        root: The folder whose recordings are shown.
        feeds: What follows them.
        names: Names by which the server may be asked for besides those of this machine.
        stopping: Whether the server is about to stop, so that streams have to end.
    """

    async def file(request: Request) -> Response:
        path, kind = _FILES[request.url.path]
        return Response(path.read_bytes(), media_type=kind, headers=HEADERS)

    async def events(request: Request) -> Response:
        asked = request.query_params.get("recording")
        stream = _events(root, feeds, asked, stopping)
        return StreamingResponse(stream, media_type="text/event-stream", headers=HEADERS)

    routes = [Route(path, file, methods=["GET"]) for path in _FILES]
    return Guard(Starlette(routes=[*routes, Route("/events", events, methods=["GET"])]), names)


async def _events(root: Path, feeds: Feeds, asked: str | None, stopping: Callable[[], bool]) -> AsyncIterator[bytes]:
    """Yield what a page needs from the beginning, and then what changes: of the recordings, and of the one it shows.

    Without a recording that is asked for, the newest that is there is shown, and stays.
    """
    yield b"retry: 1000\n\n"
    feed, stream = None, Stream()
    listed: bytes | None = None
    looked = said = took = 0.0
    try:
        while not stopping():
            now = time.monotonic()
            if now - looked >= max(LIST_EVERY, _REST * took) or listed is None:
                looked = now
                found = await asyncio.to_thread(recordings, root)
                took = time.monotonic() - now
                if feed is None and found:
                    known = {one.id for one in found}
                    shown = asked if asked is not None else found[0].id
                    if shown in known:
                        feed = feeds.of(root / shown)
                        feed.join()
                        asked = shown
                told = plain_json(
                    {"folder": str(root.resolve()), "shown": asked if feed is not None else None, "asked": asked,
                     "found": found}
                )  # fmt: skip
                if told != listed:
                    listed, said = told, now
                    yield event("recordings", told)
            frame = feed.frame if feed is not None else None
            if frame is not None:
                for message in stream.news(frame):
                    said = now
                    yield message
            if now - said >= PING_EVERY:
                said = now
                yield b": here\n\n"
            await asyncio.sleep(LOOK_EVERY)
    finally:
        if feed is not None:
            feed.leave()
