"""Runs a command that may hang: in a process group of its own, with a deadline, and with nothing left behind."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec

from preflight.errors import PreflightError, UsageError

MARK = "PREFLIGHT_BISECT_RUN"
"""Set in the environment of everything that a run starts, so that what leaves the process group is found as well."""
GRACE = 5.0
"""Seconds between asking and forcing a program to end."""


class Launch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a test is started.

    Attributes:
        argv: The command. environment: Variables set for it (None: taken out). folder: Where it runs.
        files: Files that are written before, by path. cleanup: Run when the deadline has passed, to end what is elsewhere.
        waits: Seconds that it may wait for its turn before its own time begins.
    """

    argv: tuple[str, ...]
    environment: dict[str, str | None] = {}
    folder: str | None = None
    files: dict[str, str] = {}
    cleanup: tuple[str, ...] = ()
    waits: float = 0.0


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended; ``code`` is None where its deadline passed."""

    code: int | None
    seconds: float


def run(launch: Launch, log: str, timeout: float) -> Ended:
    """Run a command with all its output in a file.

    Raises:
        UsageError: There is no such program.
        PreflightError: It cannot be started.
    """
    mark = secrets.token_hex(8)
    for path, text in launch.files.items():
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    began = time.monotonic()
    with open(log, "wb") as out:
        try:
            process = subprocess.Popen(
                launch.argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, cwd=launch.folder,
                env=_environment(launch.environment, mark), start_new_session=os.name != "nt",
            )  # fmt: skip
        except FileNotFoundError:
            raise UsageError(f"there is no program {launch.argv[0]!r}", "is it on the PATH?") from None
        except OSError as error:
            raise PreflightError(f"{launch.argv[0]} cannot be started: {error.strerror or error}") from None
        code: int | None = None
        try:
            code = process.wait(timeout + launch.waits)
        except subprocess.TimeoutExpired:
            end(process, mark)
            _clean(launch)
        except BaseException:  # also when the person interrupts: nothing may go on
            end(process, mark)
            _clean(launch)
            raise
        else:
            _kill(_marked(mark))
    return Ended(code=code, seconds=time.monotonic() - began)


def _environment(changes: Mapping[str, str | None], mark: str) -> dict[str, str]:
    environment = {**os.environ, MARK: mark}
    for name, value in changes.items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = value
    return environment


def end(process: subprocess.Popen[bytes], mark: str) -> None:
    """End a process and everything that it started: ask, wait, force."""
    if os.name == "nt":
        process.kill()
        process.wait()
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
    deadline = time.monotonic() + GRACE
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    _kill(_marked(mark))


def _marked(mark: str) -> list[int]:
    """Processes whose environment bears the mark: those that a launcher put into sessions of their own."""
    if sys.platform != "linux":
        return []
    wanted = f"{MARK}={mark}".encode()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if wanted in file.read().split(b"\0"):
                        found.append(int(name))
            except OSError:
                continue
    return found


def _kill(pids: Sequence[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _clean(launch: Launch) -> None:
    if launch.cleanup:
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                launch.cleanup, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                timeout=60, check=False,
            )  # fmt: skip


__all__ = ["MARK", "Ended", "Launch", "end", "run"]
