"""Reads and writes ``run.json``, and any other small file of a trace folder, whole or not at all."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import TypeVar

import msgspec

from preflight.errors import TraceError
from preflight.vocabulary.trace import RUN_SCHEMA, RecordedRun

NAME = "run.json"
T = TypeVar("T")


class DamagedError(TraceError):
    """A small file of a trace folder is not what was written."""


def write_run(folder: Path, run: RecordedRun) -> None:
    """Write ``run.json``; who reads meanwhile sees the earlier one or this one.

    Raises:
        TraceError: It cannot be written.
    """
    write_whole(folder / NAME, msgspec.json.format(msgspec.json.encode(run), indent=2) + b"\n")


def read_run(folder: Path) -> RecordedRun | None:
    """Return what ``run.json`` says; None where there is none.

    Raises:
        TraceError: It is broken, of a newer format, or of something else.
    """
    return read_described(folder / NAME, RecordedRun)


def read_described(path: Path, kind: type[T]) -> T | None:
    """Return what a small file of a trace folder says, read as a struct; None where there is none.

    Raises:
        DamagedError: It is broken.
        TraceError: It is of a newer format, or of something else, or cannot be read.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror}") from error
    try:
        check_schema(path, msgspec.json.decode(content, type=_Schema).schema)
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedError(f"{path} is damaged: {error}") from error


class _Schema(msgspec.Struct):
    """The one field that says how the others are to be read."""

    schema: str


def check_schema(path: Path, schema: str) -> None:
    """Refuse what is written in a newer format, or is something else.

    Raises:
        TraceError: It is.
    """
    if schema == RUN_SCHEMA:
        return
    found = re.fullmatch(re.escape(RUN_SCHEMA.rpartition("/")[0]) + r"/(\d+)", schema)
    if found is None:
        raise TraceError(f"{path} describes no trace: its schema is {schema[:60]!r}")
    raise TraceError(
        f"{path} is written in format {found[1]}, and this version reads format 1",
        hint="read it with the version of preflight that wrote it, or a newer one",
    )


def write_whole(path: Path, content: bytes) -> None:
    """Write a file under another name beside it, and then give it its name.

    Raises:
        TraceError: That fails.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise TraceError(f"{path} cannot be written: {error.strerror}") from error
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Let the names in a folder survive a power cut, where the system can do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
