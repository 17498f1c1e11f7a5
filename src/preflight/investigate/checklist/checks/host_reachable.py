"""A host's name resolves to an address that other nodes can reach, and its port answers where somebody listens."""

from __future__ import annotations

import socket

from preflight.investigate.checklist.checks import Seen


def check(host: str, port: int | None = None, seconds: float = 5.0) -> Seen:
    """Resolve the name, and connect."""
    try:
        address = socket.gethostbyname(host)
    except OSError as error:
        return Seen("fail", f"{host}: the name does not resolve: {error}")
    if address.startswith("127.") and host not in ("localhost", address):
        return Seen("fail", f"{host} resolves to {address}: other nodes cannot reach it")
    if port is None:
        return Seen("pass", f"{host} is {address}")
    try:
        with socket.create_connection((address, int(port)), timeout=seconds):
            return Seen("pass", f"{host}:{port} answers")
    except ConnectionRefusedError:
        return Seen("pass", f"{host} ({address}) is there; nobody listens on {port} yet")
    except OSError as error:
        return Seen("fail", f"{host}:{port}: {error}")
