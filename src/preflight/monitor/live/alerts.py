"""Tells somebody of alarms while a run goes on: lines of a file, and a webhook that never holds anybody up."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from preflight.errors import UsageError
from preflight.vocabulary.invariant import Violation

SCHEMA = "preflight.alert/1"
MOST_WAITING = 100
TIMEOUT = 5.0
"""Seconds that one message to a webhook may take, and that the end waits for the last ones."""


class Told(Protocol):
    """Somebody who is told of alarms.

    Attributes:
        run: What to call the run.
    """

    run: str

    def tell(self, group: Sequence[Violation]) -> None:
        """Take an alarm: the violations of one cause so far, the root first."""

    def close(self) -> str | None:
        """Finish; say what could not be told, or None."""


def message(group: Sequence[Violation], run: str) -> dict[str, Any]:
    """Return an alarm as plain JSON values: the root, and how many violations belong to it."""
    from preflight.monitor.outcome import with_evidence

    root = with_evidence(group)[0]
    return {
        "schema": SCHEMA,
        "time": round(time.time(), 3),
        "run": run,
        "text": f"{root.severity} at step {root.first_step}: {root.message}",
        "violations": len(group),
        "violation": msgspec.to_builtins(root, str_keys=True),
    }


class LinesFile:
    """Alarms as lines of JSON at the end of a file."""

    def __init__(self, path: str | Path, run: str) -> None:
        """Open the file.

        Raises:
            UsageError: It cannot be written.
        """
        self.run = run
        self._problem: str | None = None
        try:
            self._stream = open(path, "ab")  # noqa: SIM115
        except OSError as error:
            raise UsageError(f"--alerts {path}: cannot be written: {error.strerror or error}") from error

    def tell(self, group: Sequence[Violation]) -> None:
        """Write a line."""
        try:
            self._stream.write(encoded(message(group, self.run)) + b"\n")
            self._stream.flush()
        except OSError as error:
            self._problem = f"alarms could not be written: {error.strerror or error}"

    def close(self) -> str | None:
        """Close the file."""
        self._stream.close()
        return self._problem


def encoded(value: Any) -> bytes:
    """Return JSON that every reader accepts: a number that is not finite is null."""
    return msgspec.json.encode(msgspec.json.decode(msgspec.json.encode(value)))


class Webhook:
    """Alarms as messages to an address, sent by a thread."""

    def __init__(self, address: str, run: str) -> None:
        """Take the address.

        Raises:
            UsageError: It is none.
        """
        if not address.startswith(("http://", "https://")):
            raise UsageError(f"--webhook {address}: is no address", "it begins with http:// or https://")
        self._address = address
        self.run = run
        self._waiting: queue.Queue[bytes | None] = queue.Queue(MOST_WAITING)
        self._failed = 0
        self._problem = ""
        self._thread = threading.Thread(target=self._send_all, name="preflight-webhook", daemon=True)
        self._thread.start()

    def tell(self, group: Sequence[Violation]) -> None:
        """Put a message in the line; where too many wait it is counted as failed."""
        try:
            self._waiting.put_nowait(encoded(message(group, self.run)))
        except queue.Full:
            self._failed += 1

    def close(self) -> str | None:
        """Wait a little for what is not sent yet."""
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(None)
        self._thread.join(TIMEOUT)
        left = self._waiting.qsize() if self._thread.is_alive() else 0
        missing = self._failed + left
        if not missing:
            return None
        return f"{missing} alarm{'s' * (missing != 1)} did not reach the webhook: {self._problem or 'no answer'}"

    def _send_all(self) -> None:
        while (body := self._waiting.get()) is not None:
            self._send(body)

    def _send(self, body: bytes) -> None:
        import urllib.request

        request = urllib.request.Request(
            self._address, data=body, headers={"Content-Type": "application/json"}, method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT):
                return
        except Exception as error:
            self._failed += 1
            self._problem = str(error)
