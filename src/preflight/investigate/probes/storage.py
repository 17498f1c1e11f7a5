"""Storage: write, sync, read back and verify in the folder of checkpoints or data; many small files."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from typing import Any

from preflight.investigate.probes.timed import Row, row

TITLE = "write, fsync, read and verify a file, and create small ones, in a folder"
TOGETHER = False
CHUNK = 1 << 20


def operations(settings: dict[str, Any]) -> list[str]:
    """Return what is measured."""
    return ["write", "fsync", "small files"]


def measure(operation: str, settings: dict[str, Any]) -> list[Row]:
    """Measure one of them, in a folder of its own that is removed again."""
    folder = tempfile.mkdtemp(prefix=".preflight-probe-", dir=settings.get("folder") or None)
    try:
        if operation == "write":
            return _write(folder, settings)
        if operation == "fsync":
            return [_sync(folder, settings)]
        return [_small(folder, settings)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write(folder: str, settings: dict[str, Any]) -> list[Row]:
    size = int(settings.get("bytes") or 32 << 20)
    content = os.urandom(CHUNK)
    path = os.path.join(folder, "large")
    written: list[float] = []
    read: list[float] = []
    wrong = 0
    until = time.perf_counter() + settings["seconds"]
    while len(written) < 3 or (len(written) < settings["repeats"] and time.perf_counter() < until):
        began = time.perf_counter()
        with open(path, "wb") as file:
            for _ in range(size // CHUNK):
                file.write(content)
            file.flush()
            os.fsync(file.fileno())
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # so that it is read from the storage
        written.append(size / (time.perf_counter() - began))
        began = time.perf_counter()
        with open(path, "rb") as file:
            while part := file.read(CHUNK):
                wrong += part != content[: len(part)]
        read.append(size / (time.perf_counter() - began))
    return [
        row("write", "byte/s", "larger", written, bytes=size, shared="node"),
        row("read", "byte/s", "larger", read, bytes=size, wrong=wrong, shared="node"),
    ]


def _sync(folder: str, settings: dict[str, Any]) -> Row:
    taken: list[float] = []
    until = time.perf_counter() + settings["seconds"]
    with open(os.path.join(folder, "small"), "wb") as file:
        while len(taken) < 10 or (len(taken) < settings["repeats"] and time.perf_counter() < until):
            began = time.perf_counter()
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
            taken.append(time.perf_counter() - began)
    return row("fsync 4 KiB", "s", "smaller", taken, shared="node")


def _small(folder: str, settings: dict[str, Any]) -> Row:
    taken: list[float] = []
    until = time.perf_counter() + settings["seconds"]
    while len(taken) < 50 or (len(taken) < 20 * settings["repeats"] and time.perf_counter() < until):
        path = os.path.join(folder, f"{len(taken)}")
        began = time.perf_counter()
        with open(path, "wb") as file:
            file.write(b"x" * 4096)
        with open(path, "rb") as file:
            file.read()
        os.unlink(path)
        taken.append(time.perf_counter() - began)
    return row("small file", "s", "smaller", taken, shared="node")
