"""``preflight investigate ask``: what is sent, what is shown, and that neither decides anything. The server is a stand-in."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from .command_line import run

SECRET = "hf_" + "Ab3dEf6hIj9lMn2pQr5t"
Answering = Callable[[dict[str, Any]], tuple[int, bytes]]


class Server:
    """A server that speaks the protocol; what it answers is set by the test, what it was sent is kept."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.answers: Answering = lambda body: (500, b"")
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.seen.append({"path": self.path, **body})
                outer.keys.append(self.headers.get("Authorization"))
                code, content = outer.answers(body)
                self.send_response(code)
                if code == 302:
                    self.send_header("Location", outer.endpoint + "/elsewhere")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.http.server_port}/v1"

    def says(self, content: Any) -> None:
        text = content if isinstance(content, str) else json.dumps(content)
        self.answers = lambda body: (200, json.dumps({"choices": [{"message": {"content": text}}]}).encode())


@pytest.fixture
def server() -> Iterator[Server]:
    one = Server()
    thread = threading.Thread(target=one.http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield one
    one.http.shutdown()
    one.http.server_close()
    thread.join()


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    home = tmp_path / "home" / "jane.doe"
    home.mkdir(parents=True)
    for rank in (0, 1):
        lines = [f"step {step} loss {2.0 - step / 10:.3f}" for step in range(5)]
        if rank == 1:
            lines += [
                "Traceback (most recent call last):",
                '  File "/home/jane.doe/train.py", line 31, in <module>',
                f"RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x4 and 5x2), HF_TOKEN={SECRET}",
            ]
        (home / f"rank_{rank}.log").write_text("\n".join(lines) + "\n")
    return home


def evidence(body: dict[str, Any], words: str) -> str:
    """The number of the line that holds the words."""
    told = body["messages"][1]["content"].splitlines()
    return next(line.split()[0] for line in told if line.startswith("E") and words in line)


def test_a_dry_run_shows_what_would_be_sent_and_sends_nothing(
    server: Server, logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("investigate", "ask", logs, "--endpoint", server.endpoint, "--model", "m", "--dry-run") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["to"] == server.endpoint + "/chat/completions"
    assert "shapes cannot be multiplied" in shown["body"]["messages"][1]["content"]
    assert SECRET not in json.dumps(shown)
    assert "jane.doe" not in json.dumps(shown)
    assert server.seen == []


def test_what_is_sent_is_what_the_dry_run_shows_with_the_key(
    server: Server, logs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("investigate", "ask", logs, "--endpoint", server.endpoint, "--model", "m")
    run(*words, "--dry-run")
    body = json.loads(capsys.readouterr().out)["body"]
    monkeypatch.setenv("MY_KEY", "a-key")
    server.says({"hypothesis": "The shapes differ."})
    assert run(*words, "--key-from", "MY_KEY") == 1
    assert server.seen == [{"path": "/v1/chat/completions", **body}]
    assert server.keys == ["Bearer a-key"]


def test_citations_are_looked_for_and_nothing_is_decided(
    server: Server, logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def answers(body: dict[str, Any]) -> tuple[int, bytes]:
        here = evidence(body, "shapes cannot be multiplied")
        said = {
            "hypothesis": f"The layer has another width. {SECRET}",
            "reasons": [
                {
                    "text": "The multiplication says so",
                    "evidence": here,
                    "quote": "mat1 and mat2 shapes cannot be multiplied",
                },
                {"text": "The disk was full", "evidence": here, "quote": "No space left on device"},
                {"text": "Another line", "evidence": "E999", "quote": "mat1 and mat2 shapes cannot be multiplied"},
                {"text": "I feel it"},
                "no reason at all",
            ],
            "check": "print the shapes\x1b[31m",
            "verdict": "GO",
        }
        content = "Here it is:\n```json\n" + json.dumps(said) + "\n```"
        return 200, json.dumps({"choices": [{"message": {"content": content}}]}).encode()

    server.answers = answers
    plain, asked = tmp_path / "plain.json", tmp_path / "asked.json"
    assert run("investigate", logs, "-o", plain, "--quiet") == 1
    words = ("investigate", "ask", logs, "--endpoint", server.endpoint, "--model", "m")
    assert run(*words, "-o", asked, "--quiet") == 1
    before, after = json.loads(plain.read_text()), json.loads(asked.read_text())
    opinion = after.pop("opinion")
    assert after == before
    assert SECRET not in json.dumps(opinion)
    assert ["quote" in claim for claim in opinion["claims"]] == [True, False, False, False]
    capsys.readouterr()
    assert run(*words) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "a hypothesis: verdict and confidence are those without it" in shown
    assert shown.count("[not supported:") == 3
    assert "\x1b[31m" not in shown
    for name in ("asked.md", "asked.html"):
        assert run(*words, "-o", tmp_path / name, "--quiet") == 1
        assert "The layer has another width" in (tmp_path / name).read_text()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((500, b""), "the server answered 500"),
        ((302, b""), "the server answered 302"),
        ((200, b"<html>"), "none of a chat completion"),
        ((200, b'{"choices": []}'), "none of a chat completion"),
        ((200, b'{"choices": [{"message": {"content": "It was the network."}}]}'), "not in the form"),
        ((200, b'{"choices": [{"message": {"content": "{\\"hypothesis\\": 3}"}}]}'), "not in the form"),
    ],
)
def test_a_server_that_does_not_answer_well_changes_nothing(
    server: Server, logs: Path, capsys: pytest.CaptureFixture[str], answer: tuple[int, bytes], said: str
) -> None:
    server.answers = lambda body: answer
    assert run("investigate", "ask", logs, "--endpoint", server.endpoint, "--model", "m") == 1
    assert said in " ".join(capsys.readouterr().out.split())
    assert len(server.seen) == 1


def test_nobody_listens(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("investigate", "ask", logs, "--endpoint", "http://127.0.0.1:9/v1", "--model", "m") == 1
    assert "the server cannot be asked" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no model is named"),
        (("--model", "m"), "no model is named"),
        (("--model", "m", "--endpoint", "http://example.com/v1"), "in the clear"),
        (("--model", "m", "--endpoint", "file:///etc"), "no address"),
        (("--model", "m", "--endpoint", "http://127.0.0.1:9/v1", "--key-from", "NOT_SET_AT_ALL"), "is not set"),
    ],
)
def test_misuse_is_named(logs: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str) -> None:
    assert run("investigate", "ask", logs, *words) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_key_from_a_file_with_line_ends_is_not_shown(
    server: Server, logs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("investigate", "ask", logs, "--endpoint", server.endpoint, "--model", "m", "--key-from", "OF_A_TEST")
    monkeypatch.setenv("OF_A_TEST", "abc-123\r\n")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # nothing in the clear goes to a proxy
    run(*words)
    assert len(server.seen) == 1
    monkeypatch.setenv("OF_A_TEST", "abc\n123")
    assert run(*words) == 2
    seen = capsys.readouterr()
    assert "letters that no key has" in seen.err
    assert "abc" not in seen.out + seen.err
