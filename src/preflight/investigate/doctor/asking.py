"""Ask a program, with a deadline; a driver that hangs must not hang the doctor."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence


class NoAnswer(Exception):
    """The program is not there, failed, or did not answer in time."""


def ask(line: Sequence[str], seconds: float, *, environment: dict[str, str] | None = None) -> str:
    """Return what a program prints.

    Raises:
        NoAnswer: It is not there, it failed, or it did not answer in time; then it and its children are killed, and
            where the kernel does not let them go, they are left behind.
    """
    import subprocess

    try:
        process = subprocess.Popen(
            line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, start_new_session=True,
            text=True, errors="replace", env=environment,
        )  # fmt: skip
    except OSError as error:
        raise NoAnswer(f"{line[0]}: {error.strerror or error}") from None
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        _end(process.pid)
        try:
            process.communicate(timeout=1.0)
        except subprocess.TimeoutExpired:
            raise NoAnswer(f"{line[0]} did not answer within {seconds:.0f} s and cannot be ended") from None
        raise NoAnswer(f"{line[0]} did not answer within {seconds:.0f} s") from None
    if process.returncode:
        said = (err.strip() or out.strip()).splitlines()
        raise NoAnswer(f"{line[0]} ended with {process.returncode}" + (f": {said[-1]}" if said else ""))
    return out


def _end(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
