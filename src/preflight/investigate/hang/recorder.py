"""Asks live processes for what their Flight Recorder holds: by the socket of their worker server, or by NCCL's dump pipe."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from preflight.investigate.hang.processes import RankProcess
from preflight.source.dumps import flight_recorder
from preflight.source.dumps.opening import read_dump
from preflight.vocabulary.log import Flight, LogFile, Who

_LARGEST = 1 << 28
_DEFAULT_FILE = "/tmp/nccl_trace_rank_"


def record(processes: Sequence[RankProcess], *, seconds: float) -> tuple[tuple[Flight, ...], tuple[str, ...]]:
    """Return the flights of the processes that offer one, and notes on those that were asked and did not answer."""
    offering = [one for one in processes if _socket(one) or _pipe(one)]
    if not offering:
        return (), ()
    end = time.monotonic() + seconds
    with ThreadPoolExecutor(max_workers=min(16, len(offering))) as pool:
        answers = list(pool.map(lambda one: _ask(one, end), offering))
    flights = tuple(flight for flight, _ in answers if flight is not None)
    notes = tuple(note for _, note in answers if note)
    return flights, notes


def _socket(process: RankProcess) -> str | None:
    return process.variables.get("TORCH_WORKER_SERVER_SOCKET")


def _pipe(process: RankProcess) -> str | None:
    prefix = process.variables.get("TORCH_NCCL_DEBUG_INFO_PIPE_FILE")
    return f"{prefix}{process.rank}.pipe" if prefix and process.rank is not None else None


def _ask(process: RankProcess, end: float) -> tuple[Flight | None, str | None]:
    try:
        content = _from_socket(process, end) if _socket(process) else _from_pipe(process, end)
    except (OSError, ValueError) as error:
        return None, f"rank {process.rank}: its recorder did not answer: {error}"
    if not content:
        return None, f"rank {process.rank}: its recorder wrote nothing in time"
    file = LogFile(
        index=-1, path=f"recorder of pid {process.pid}", kind="flight", who=Who(rank=process.rank, pid=process.pid)
    )
    part = read_dump(flight_recorder, content, file)
    return (part.flights[0] if part.flights else None), part.problem


def _from_socket(process: RankProcess, end: float) -> bytes:
    """Ask the worker server of torch over its Unix socket; it speaks plain HTTP."""
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(max(0.1, end - time.monotonic()))
        line.connect(_socket(process) or "")
        line.sendall(
            b"POST /handler/fr_trace_json HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )
        parts = []
        size = 0
        while size < _LARGEST:
            line.settimeout(max(0.1, end - time.monotonic()))
            piece = line.recv(1 << 16)
            if not piece:
                break
            parts.append(piece)
            size += len(piece)
    head, _, body = b"".join(parts).partition(b"\r\n\r\n")
    if b" 200 " not in head.split(b"\r\n", 1)[0]:
        raise ValueError(head.split(b"\r\n", 1)[0].decode("latin-1"))
    return body


def _from_pipe(process: RankProcess, end: float) -> bytes:
    """Write to the pipe that NCCL's watchdog listens to, and wait for the file that it then writes."""
    prefix = process.variables.get("TORCH_FR_DUMP_TEMP_FILE") or process.variables.get(
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"
    )
    path = f"{prefix or _DEFAULT_FILE}{process.rank}"
    before = os.stat(path).st_mtime_ns if os.path.exists(path) else 0
    # Without a reader, opening would wait for ever.
    pipe = os.open(_pipe(process) or "", os.O_WRONLY | os.O_NONBLOCK)
    try:
        os.write(pipe, b"1\n")
    finally:
        os.close(pipe)
    size = -1
    while time.monotonic() < end:
        time.sleep(0.1)
        if os.path.exists(path) and os.stat(path).st_mtime_ns > before:
            now = os.path.getsize(path)
            if now == size:
                with open(path, "rb") as file:
                    return file.read(_LARGEST)
            size = now
    return b""
