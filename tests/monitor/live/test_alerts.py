"""Alarms reach a file and an address, and an address that does not answer holds nobody up."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from preflight.errors import UsageError
from preflight.monitor.live import alerts
from preflight.monitor.live.alerts import LinesFile, Webhook
from preflight.vocabulary.finding import Location
from preflight.vocabulary.invariant import Violation


def violation(step: int = 3, **more: object) -> Violation:
    return Violation(
        rule="gradients-cleared", code="gradients-cleared", severity="error", confidence="certain", message="left over",
        location=Location(path="train.py", line=9, rank=0, step=step), invariant="gradients-cleared",
        relation="gradients-cleared", first_step=step, ranks=(0,), expected="nothing", seen=float("nan"), **more,
    )  # type: ignore[arg-type]  # fmt: skip


class _Server(HTTPServer):
    got: list[dict[str, object]]
    status = 200
    slow = 0.0


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(self.server.slow)
        self.server.got.append({"type": self.headers["Content-Type"], "body": json.loads(body)})
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[_Server]:
    made = _Server(("127.0.0.1", 0), _Handler)
    made.got = []
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


def test_an_alarm_is_posted_as_json(server: _Server) -> None:
    hook = Webhook(f"http://127.0.0.1:{server.server_port}/alarm", "runs/1")
    hook.tell([violation(), violation(4)])
    assert hook.close() is None
    [got] = server.got
    assert got["type"] == "application/json"
    body = got["body"]
    assert isinstance(body, dict)
    assert body["schema"] == "preflight.alert/1"
    assert body["run"] == "runs/1"
    assert body["text"] == "error at step 3: left over"
    assert body["violations"] == 2
    assert body["violation"]["seen"] is None, "a number that is not finite is null"


def test_an_address_that_refuses_or_does_not_exist_is_counted(server: _Server) -> None:
    server.status = 500
    refusing = Webhook(f"http://127.0.0.1:{server.server_port}/", "r")
    refusing.tell([violation()])
    assert "1 alarm did not reach the webhook: HTTP Error 500" in (refusing.close() or "")
    absent = Webhook("http://127.0.0.1:9/", "r")
    absent.tell([violation()])
    assert "did not reach the webhook" in (absent.close() or "")


def test_telling_does_not_wait_for_an_answer(server: _Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.slow = 2.0
    monkeypatch.setattr(alerts, "TIMEOUT", 0.2)
    hook = Webhook(f"http://127.0.0.1:{server.server_port}/", "r")
    began = time.monotonic()
    for _ in range(alerts.MOST_WAITING + 10):
        hook.tell([violation()])
    assert hook.close() is not None
    assert time.monotonic() - began < 2.0


def test_alarms_are_added_to_a_file(tmp_path: Path) -> None:
    for number in (1, 2):
        lines = LinesFile(tmp_path / "alarms.jsonl", f"runs/{number}")
        lines.tell([violation(number)])
        assert lines.close() is None
    told = [json.loads(line) for line in (tmp_path / "alarms.jsonl").read_text().splitlines()]
    assert [one["run"] for one in told] == ["runs/1", "runs/2"]
    assert [one["violation"]["first_step"] for one in told] == [1, 2]
    with pytest.raises(UsageError, match="cannot be written"):
        LinesFile(tmp_path / "nowhere" / "alarms.jsonl", "r")
    with pytest.raises(UsageError, match="is no address"):
        Webhook("ftp://x", "r")
