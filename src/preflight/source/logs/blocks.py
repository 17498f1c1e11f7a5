"""Cuts a stream of bytes into blocks that end with a line, unpacked and in UTF-8, and remembers where the lines are."""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple

from preflight.source.logs.wide import Mixed, wide_in

BLOCK = 4 << 20
OVERLAP = 1 << 16
"""Bytes at the end of a block that the next one begins with, so that what belongs together is seen together."""
_PIECE = 1 << 20
_FIRST = 1 << 16
_FEED = 1 << 11
"""Packed bytes of zstd that are unpacked at once: even those of a bomb give no more than 64 MB."""
_COMMON = (b"\xb0\xa1", b"\xd7\xf9")
_FEWEST = 4
_MOSTLY = 0.6
"""So many different common characters, and that share of all that are not ASCII, are of a Chinese text; the rest is punctuation and
what bars are drawn with."""


class Block(NamedTuple):
    """A part of a file.

    Attributes:
        data: Its bytes; they begin with a line, unless the line before is longer than any block.
        offset: Where it begins in the file.
        line: Number of its first line, from 1.
        own: Bytes of ``data`` that are this block's; a line that begins behind them is the next one's.
        last: There is none after it.
    """

    data: bytes
    offset: int
    line: int
    own: int
    last: bool


class Opened:
    """A stream of bytes and what turned out to be wrong with it while it was read.

    Attributes:
        problem: What is wrong with it, so far.
        encoding: How its text is written; it is given in UTF-8.
        packing: How it was packed.
        next_line: Number of the first line behind the block that was given last, where its reader counted the lines.
        plain: It is no text: the bytes are given as they are.
    """

    def __init__(self, stream: IO[bytes], packing: str = "") -> None:
        """Unpack ``stream`` where it is packed."""
        self.problem: str | None = None
        self.encoding = "utf-8"
        self.packing = packing
        self.next_line = 0
        self.plain = False
        self._stream = _unpacked(stream, packing)
        self._decoder: Callable[[bytes, bool], str] | None = None
        self._first: bytes | None = None
        self._seekable: bool | None = None

    def head(self, size: int = 8192) -> bytes:
        """Return the first bytes without taking them."""
        if self._first is None:
            self._first = self._some(_FIRST if self.packing or self.plain else BLOCK)
            self._decide(self._first[:_FIRST])
        return self._first[:size]

    def read(self, size: int) -> bytes:
        """Return the next bytes, in UTF-8; none at the end, or where the stream breaks off."""
        if self._first is None:
            self.head()
        first = self._first or b""
        first, self._first = (first, b"") if len(first) <= size else (first[:size], first[size:])
        raw = first or self._some(size)
        if self._decoder is None:
            return raw
        text = self._decoder(raw, not raw).encode("utf-8", "surrogateescape")
        self._say_mixed()
        return text or (self.read(size) if raw else b"")

    def blocks(self, size: int = BLOCK, line: int = 1, offset: int = 0, until: int | None = None) -> Iterator[Block]:
        """Yield the blocks; an unbroken line that does not fit into one is cut, and that is said.

        Args:
            size: Bytes of a block.
            line: Number of the first line.
            offset: Where the stream stands in its file.
            until: A line that begins here, or behind, is no more of the last block's own.
        """
        carried = b""
        while True:
            data, ended = self._filled(carried, size)
            if self._decoder is None and until is None and not self.plain and (wide := wide_in(data)) is not None:
                data, ended = self._changed(data, wide, ended)
            if not data:
                return
            own = len(data) if ended else self._owned(data)
            if until is not None and offset + own >= until:
                own = min(own, _line_behind(data, until - offset))
                ended = True
            yield Block(data, offset, line, own, ended)
            if ended:
                return
            line = self.next_line or line + data.count(b"\n", 0, own)
            self.next_line = 0
            offset += own
            carried = self._returned(data, own)

    def _returned(self, data: bytes, own: int) -> bytes:
        """Give back what the next block begins with; a file is set back instead, so that nothing of it is copied."""
        if self._seekable is None:
            self._seekable = not self.packing and self._decoder is None and not self._first and self._can_seek()
        if not self._seekable:
            return data[own:]
        self._stream.seek(own - len(data), io.SEEK_CUR)
        return b""

    def _changed(self, data: bytes, encoding: str, ended: bool) -> tuple[bytes, bool]:
        """Go on as a file of which parts are in UTF-16, from a block in which the first of them were met."""
        self._seekable = False
        self._decode_as(encoding)
        assert self._decoder is not None
        text = self._decoder(data, False) + (self._decoder(b"", True) if ended else "")
        self._say_mixed()
        return text.encode("utf-8", "surrogateescape"), ended

    def _say_mixed(self) -> None:
        if isinstance(self._decoder, Mixed) and self._decoder.parts:
            self.problem = self.problem or "parts of it are in UTF-16 and others in single bytes; both are read"

    def _can_seek(self) -> bool:
        return isinstance(self._stream, (io.BufferedReader, io.FileIO))

    def _filled(self, carried: bytes, size: int) -> tuple[bytes, bool]:
        parts = [carried] if carried else []
        length = len(carried)
        while length < size:
            more = self.read(min(size, _PIECE if self._decoder else size))
            if not more:
                return b"".join(parts), True
            parts.append(more)
            length += len(more)
        return b"".join(parts), False

    def _owned(self, data: bytes) -> int:
        want = max(len(data) - OVERLAP, 1)
        own = max(data.rfind(b"\n", 0, want), data.rfind(b"\r", 0, want)) + 1
        if own:
            return own
        self.problem = self.problem or f"a line is longer than {len(data):,} bytes; it is read in pieces"
        return want

    def text_of(self, head: bytes) -> bytes:
        """Return first bytes, as ``head`` gave them, in UTF-8."""
        if self.encoding == "utf-8":
            return head
        text = (
            Mixed(self.encoding)(head, True)
            if isinstance(self._decoder, Mixed)
            else head.decode(self.encoding, "replace")
        )
        return text.encode("utf-8", "replace")

    def _decide(self, head: bytes) -> None:
        """UTF-16 and UTF-32 are told by their mark, or by the zeros that every other byte is; GBK by the characters that it gives."""
        if self.plain:
            return
        for mark, name in (
            (codecs.BOM_UTF32_LE, "utf-32"),
            (codecs.BOM_UTF16_LE, "utf-16-le"),
            (codecs.BOM_UTF16_BE, "utf-16-be"),
        ):
            if head.startswith(mark) and len(head) > len(mark):
                self._decode_as(name)
                return
        even, odd = head[0:4096:2], head[1:4096:2]
        if len(head) >= 16:
            if odd.count(0) > 0.7 * len(odd) and even.count(0) < 0.1 * len(even):
                self._decode_as("utf-16-le")
            elif even.count(0) > 0.7 * len(even) and odd.count(0) < 0.1 * len(odd):
                self._decode_as("utf-16-be")
            elif (wide := wide_in(head)) is not None:
                self._decode_as(wide)
            elif _in_chinese(head):
                self._decode_as("gb18030")

    def _decode_as(self, name: str) -> None:
        self.encoding = name
        if name.startswith("utf-16-"):
            self._decoder = Mixed(name)
            return
        decoder = codecs.getincrementaldecoder(name)("replace")
        self._decoder = lambda raw, final: decoder.decode(raw, final).replace("\ufeff", "")

    def _some(self, size: int) -> bytes:
        try:
            return self._stream.read(size) or b""
        except EOFError:
            self.problem = "cut off: the packed file ends early; what was there is read"
        except Exception as error:  # each library of packing has its own errors, and what was read before is good
            self.problem = f"damaged: {type(error).__name__}: {error}; what came before is read"[:300]
        return b""


def _in_chinese(head: bytes) -> bool:
    """Return whether bytes are no UTF-8 and give Chinese text as GBK, the code page of Windows in China, and nothing else."""
    if head.isascii():
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        pass
    else:
        return False
    try:
        letters = [one for one in codecs.getincrementaldecoder("gb18030")().decode(head) if not one.isascii()]
    except UnicodeDecodeError:
        return False
    # Of the letters of other languages it would make rare characters; these are the 3,755 that the standard counts as common.
    common = {one for one in letters if _COMMON[0] <= (code := one.encode("gb18030")) <= _COMMON[1] and len(code) == 2}
    return len(common) >= _FEWEST and sum(one in common for one in letters) >= _MOSTLY * len(letters)


def _line_behind(data: bytes, place: int) -> int:
    """Return where the first line begins that does so at ``place`` or behind it."""
    if place <= 0:
        return 0
    end = data.find(b"\n", place - 1)
    return len(data) if end < 0 else end + 1


class _Gzip(io.RawIOBase):
    """Unpacks gzip and keeps what stands before the place where it is broken, which ``gzip.open`` throws away."""

    def __init__(self, stream: IO[bytes]) -> None:
        import zlib

        self._zlib = zlib
        self._stream = stream
        self._engine = zlib.decompressobj(31)
        self._waiting = b""
        self._ended = False
        self._any = False

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while True:
            packed = self._waiting or self._stream.read(_PIECE)
            self._waiting = b""
            if not packed:
                if self._any and not self._ended:
                    left = self._engine.flush()
                    if left:
                        return left
                    self._ended = True
                    raise EOFError("the stream is cut off")
                return b""
            if self._ended:
                if not packed.strip(b"\0"):  # padding after the last member
                    continue
                self._engine = self._zlib.decompressobj(31)
            self._any = True
            data = self._engine.decompress(packed, max(size, 1))
            self._ended = self._engine.eof
            self._waiting = self._engine.unused_data if self._engine.eof else self._engine.unconsumed_tail
            if data:
                return data


class _Zstandard:
    """Unpacks zstd and tells where the last frame is not whole, of which the library's own stream says nothing."""

    def __init__(self, stream: IO[bytes]) -> None:
        try:
            import zstandard
        except ImportError:
            raise OSError("zstandard is not installed: pip install 'preflight-torch[logs]'") from None
        self._new = zstandard.ZstdDecompressor().decompressobj
        self._stream = stream
        self._engine: Any = None
        self._packed = b""
        self._at = 0

    def read(self, size: int) -> bytes:
        found: list[bytes] = []
        length = 0
        while length < size:
            if self._at == len(self._packed):
                self._packed, self._at = self._stream.read(_PIECE), 0
            if not self._packed:
                break
            if self._engine is None:
                self._engine = self._new()
            piece = self._packed[self._at : self._at + _FEED]
            try:
                more = self._engine.decompress(piece)
            except Exception:  # its own error, which comes again: what stands before is given first
                if found:
                    break
                raise
            self._at += len(piece)
            if self._engine.eof:
                self._at -= len(self._engine.unused_data)
                self._engine = None
            if more:
                found.append(more)
                length += len(more)
        if not found and self._engine is not None:
            raise EOFError("the stream is cut off")
        return b"".join(found)


class _Available:
    """Gives what can be unpacked now, so that nothing is lost when the rest is cut off."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def read(self, size: int) -> bytes:
        data: bytes = self._stream.read1(size)
        return data


def _unpacked(stream: IO[bytes], packing: str) -> Any:
    if packing == "gz":
        return _Gzip(stream)
    if packing == "bz2":
        import bz2

        return _Available(bz2.open(stream, "rb"))
    if packing == "xz":
        import lzma

        return _Available(lzma.open(stream, "rb"))
    if packing == "zst":
        return _Zstandard(stream)
    return stream
