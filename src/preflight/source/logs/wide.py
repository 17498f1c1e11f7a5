"""Text in UTF-16 in a file of which other parts are in single bytes: two programs, or shells, wrote to it one after the other.

PowerShell's ``>>`` adds UTF-16 to what was there, and any other shell adds single bytes to what PowerShell has begun.
"""

from __future__ import annotations

import re

_LITTLE = re.compile(rb"(?:[\t\n\r\x20-\x7e]\0){16,}")
_BIG = re.compile(rb"(?:\0[\t\n\r\x20-\x7e]){16,}")
_UNBROKEN = re.compile(rb"[^\0]{32,}")
_ASCII = bytes([9, 10, 13, *range(0x20, 0x7F)])
_MOSTLY = 0.9
"""That share of a stretch without zeros is ASCII where it is written in single bytes; UTF-16 of other letters has about half."""
_STRAY = 0.02
"""So many bytes of a stretch, at most, are no UTF-8 where it is meant to be that."""
_STRANGE = bytes(code for code in range(32) if code not in (7, 8, 9, 10, 11, 12, 13, 27))
_FEW = 0.05
_MARKS = (b"\xff\xfe", b"\xfe\xff")
_SHORTEST = 4
_LONGEST = 1 << 20
"""Bytes after which a line is not waited for any more."""


def wide_in(data: bytes) -> str | None:
    """Return the encoding of stretches of UTF-16 in what is otherwise text in single bytes; None where there are none."""
    if b"\0" not in data:
        return None
    little = _LITTLE.search(data)
    if little is None:
        return None
    big = data[max(little.start() - 1, 0) : little.start()] == b"\0"
    rest = (_BIG if big else _LITTLE).sub(b"", data)
    if len(rest) - len(rest.translate(None, _STRANGE)) > _FEW * len(rest):
        return None  # something else that holds such text
    return "utf-16-be" if big else "utf-16-le"


class Mixed:
    """Makes text of the bytes of such a file, piece by piece.

    Attributes:
        parts: Whether stretches in single bytes were among them.
    """

    def __init__(self, encoding: str) -> None:
        self.parts = False
        self._encoding = encoding
        self._big = encoding.endswith("be")
        self._carried = b""
        self._single: bool | None = None  # whether what was read last is in single bytes; None before anything was

    def __call__(self, raw: bytes, final: bool = False) -> str:
        """Return the text of the whole lines that there are, at the end of all that is left."""
        data = self._carried + raw
        ends = len(data) if final else self._end_of_lines(data)
        data, self._carried = data[:ends], data[ends:]
        if not data:
            return ""
        if self._single is None:
            first = data[: data.find(b"\0")] if b"\0" in data else data
            self._single = len(first) > _SHORTEST and not data.startswith(_MARKS) and _is_single(first)
        found: list[str] = []
        at = self._begun(data)
        if at:
            found.append(data[:at].decode("utf-8", "surrogateescape"))
        for run in _UNBROKEN.finditer(data, at):
            begin, end = self._bounds(data, *run.span())
            if end > begin and _is_single(data[begin:end]):
                found += (self._wide(data[at:begin]), data[begin:end].decode("utf-8", "surrogateescape"))
                at = end
        self.parts = self.parts or at > 0
        self._single = at == len(data)
        found.append(self._wide(data[at:]))
        return "".join(found)

    def _begun(self, data: bytes) -> int:
        """Return where the single bytes end that go on from what was read before, however few they are."""
        if not self._single:
            return 0
        zero = data.find(b"\0")
        return self._bounds(data, 0, len(data) if zero < 0 else zero)[1]

    def _end_of_lines(self, data: bytes) -> int:
        """Return where the last line ends; one of UTF-16 ends with two bytes, of which the second may still be to come."""
        wide = data.rfind(b"\0\n" if self._big else b"\n\0")
        end = wide + 2 if wide >= 0 else 0
        single = data.rfind(b"\n", end) + 1
        if single > end and b"\0" not in data[end:single] and (self._single or _is_single(data[end:single])):
            end = single
        return end or (len(data) & ~1 if len(data) >= _LONGEST else 0)

    def _bounds(self, data: bytes, begin: int, end: int) -> tuple[int, int]:
        """Leave the half of a character of UTF-16 outside that stands before or behind a stretch without zeros."""
        begin += self._big and begin > 0
        mark = data.find(_MARKS[self._big], begin, end)
        if mark >= 0:
            return begin, mark
        if not self._big and end < len(data):
            end = data.rfind(b"\n", begin, end) + 1 or end - 1
        return begin, end

    def _wide(self, data: bytes) -> str:
        return data.decode(self._encoding, "replace").replace("\ufeff", "")


def _is_single(data: bytes) -> bool:
    """Whether a stretch is written in single bytes."""
    plain = len(data) - len(data.translate(None, _ASCII))
    if plain >= _MOSTLY * len(data):
        return True
    return data.decode("utf-8", "replace").count("\ufffd") <= _STRAY * len(data)
