"""Goes through the members of an archive, also of one within another; nothing is written to the disk."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any

import msgspec

from preflight.source.logs.blocks import Opened
from preflight.source.logs.naming import named
from preflight.source.logs.reduced import Reduced
from preflight.vocabulary.log import LogFile

if TYPE_CHECKING:
    from preflight.source.logs.one_file import Wanted

Reader = Callable[["Wanted", IO[bytes]], list[Reduced]]
DEEPEST = 4
"""Archives within archives; one that holds itself does not end otherwise."""


class Rest(io.RawIOBase):
    """A stream whose first bytes were read already."""

    def __init__(self, head: bytes, stream: Any) -> None:
        self._head = head
        self._stream = stream

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        if self._head:
            head, self._head = self._head, b""
            if size < 0:
                return head + bytes(self._stream.read())
            if 0 <= size < len(head):
                head, self._head = head[:size], head[size:]
            return head
        data: bytes = self._stream.read(size)
        return data


def read(wanted: Wanted, stream: IO[bytes], packing: str, reader: Reader) -> list[Reduced]:
    """Read every member of an archive, in its order."""
    if wanted.source.path.count("!") >= DEEPEST:
        return [_problem(wanted, "archives within archives, too deep")]
    if packing == "zip" or wanted.source.archive == "zip":
        return _zip(wanted, stream, reader)
    return _tar(wanted, stream, "" if packing == "tar" else packing, reader)


def _tar(wanted: Wanted, stream: IO[bytes], packing: str, reader: Reader) -> list[Reduced]:
    import tarfile

    found: list[Reduced] = []
    opened = Opened(stream, packing)
    opened.plain = True
    try:
        with tarfile.open(fileobj=opened, mode="r|") as archive:  # type: ignore[call-overload]
            for member in archive:
                inner = archive.extractfile(member) if member.isfile() else None
                if inner is None:
                    continue
                found += reader(_member(wanted, member.name, member.mtime), inner)
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        found.append(_problem(wanted, f"damaged or cut off: {opened.problem or error}; what came before is read"))
    else:
        if opened.problem:
            found.append(_problem(wanted, opened.problem))
    return found or [_problem(wanted, "the archive holds no file")]


def _zip(wanted: Wanted, stream: IO[bytes], reader: Reader) -> list[Reduced]:
    import zipfile
    import zlib

    whole = stream if stream.seekable() else io.BytesIO(stream.read())
    found: list[Reduced] = []
    try:
        with zipfile.ZipFile(whole) as archive:
            for member in archive.infolist():
                if member.is_dir():
                    continue
                one = _member(wanted, member.filename, None)
                try:
                    with archive.open(member) as inner:
                        found += reader(one, inner)
                except (zipfile.BadZipFile, RuntimeError, NotImplementedError, zlib.error, EOFError, OSError) as error:
                    found.append(_problem(one, f"not readable: {error}"))
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        found.append(_problem(wanted, f"damaged or cut off: {error}"))
    return found or [_problem(wanted, "the archive holds no file")]


def _member(wanted: Wanted, name: str, modified: float | None) -> Wanted:
    source = msgspec.structs.replace(
        wanted.source,
        path=f"{wanted.source.path}!{name}",
        name=name,
        place="",
        archive="",
        packing="",
        modified=modified,
        content=None,
    )
    tail = "/".join([*os.path.basename(wanted.source.path).split(".")[:1], name])
    return msgspec.structs.replace(wanted, source=source, named=named(tail))


def _problem(wanted: Wanted, problem: str) -> Reduced:
    return Reduced(
        file=LogFile(
            index=wanted.index,
            path=wanted.source.path,
            kind="unreadable",
            who=wanted.named.who,
            modified=wanted.source.modified,
            problem=problem,
        )
    )
