"""Who is answered, with what, and how the command begins and ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("starlette", reason="the extra ui is not installed")
pytest.importorskip("uvicorn", reason="the extra ui is not installed")

from preflight.cli.main import main
from preflight.cli.ui_.serve import PORT, address, listen
from preflight.errors import UsageError

from .serving import Served, served

ROOT = Path(__file__).resolve().parents[3]
FILES = ("/", "/report.css", "/page.css", "/page.js", "/charts.js", "/heat.js", "/parts.js", "/words.js")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("empty")) as one:
        yield one


@pytest.mark.parametrize("path", FILES)
def test_everything_comes_from_here_and_may_come_from_nowhere_else(server: Served, path: str) -> None:
    status, headers, text = server.get(path)
    assert status == 200
    assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in headers
    assert "server" not in headers
    foreign = text.replace("http://www.w3.org/2000/svg", "")
    assert "http://" not in foreign
    assert "https://" not in foreign
    assert "innerHTML" not in text


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8766", "127.0.0.1:80", "[::1]:8766", "10.0.0.7", socket.gethostname()]
)
def test_this_machine_is_answered_under_its_names_and_addresses(server: Served, host: str) -> None:
    assert server.get("/", {"Host": host})[0] == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8766", "localhost.evil.example", "127.0.0.1.evil.example", "", "[::1].evil.example"],
)
@pytest.mark.parametrize("path", ["/", "/events"])
def test_a_name_of_somebody_else_is_refused(server: Served, path: str, host: str) -> None:
    status, _, text = server.get(path, {"Host": host})
    assert status in (400, 421)
    assert "<html" not in text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_nothing_can_be_changed(server: Served, method: str) -> None:
    assert server.get("/events", method=method)[0] == 405
    assert server.get("/", method=method)[0] == 405


@pytest.mark.parametrize("path", ["/../pyproject.toml", "/page.html", "/app.py", "/events/", "/%2e%2e/app.py"])
def test_no_other_file_is_given(server: Served, path: str) -> None:
    assert server.get(path)[0] in (307, 404)


def test_a_recording_outside_is_none(server: Served) -> None:
    with server.stream("?recording=../../etc") as stream:
        line = b""
        while not line.startswith(b"data: "):
            line = stream.answer.readline()
    assert b'"shown":null' in line


def test_a_port_in_use_is_said_with_one_that_is_free() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port} is in use") as error:
            listen("127.0.0.1", port)
    assert error.value.hint is not None
    assert "--port 0" in error.value.hint


def test_without_a_port_the_next_free_one_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    from preflight.cli.ui_ import serve

    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(serve, "PORT", port)
        with serve.listen("127.0.0.1", None) as found:
            assert port < found.getsockname()[1] < port + 64
            assert address("127.0.0.1", found) == f"http://localhost:{found.getsockname()[1]}/"
    assert PORT == 8766


def test_an_address_of_another_machine_cannot_be_listened_on() -> None:
    with pytest.raises(UsageError, match="cannot be listened on"):
        listen("192.0.2.1", 0)


def test_what_is_no_folder_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["ui", str(tmp_path / "nothing")]) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_the_extra_that_is_missing_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in [name for name in sys.modules if name.startswith("preflight.cli.ui_")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["ui", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "needs starlette and uvicorn" in said
    assert "preflight-torch[ui]" in said
    assert said.count("\n") == 2


def test_help_is_shown_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from preflight.cli.ui import command

    monkeypatch.setitem(sys.modules, "starlette", None)
    done = CliRunner().invoke(command, ["--help"])
    assert done.exit_code == 0
    assert "--port" in done.output


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C is a signal")
def test_ctrl_c_ends_it_quietly_also_while_somebody_looks(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "preflight", "ui", str(tmp_path), "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        assert said.startswith("preflight ui: http://localhost:")
        port = int(said.partition("localhost:")[2].partition("/")[0])
        with Served(port).stream() as stream:
            assert stream.answer.status == 200
            process.send_signal(signal.SIGINT)
            rest = process.stderr.read()
        assert process.wait(60) == 0
    assert rest == "preflight ui: ended\n"
