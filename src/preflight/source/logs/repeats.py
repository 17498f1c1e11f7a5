"""Tells which tracebacks of a file repeat others that were read: a storm of the same one is counted."""

from __future__ import annotations

import re

from preflight.source.logs.pages import Page
from preflight.source.logs.tracebacks import HEADER, raised_in
from preflight.vocabulary.log import Who

ENOUGH = 100
"""So many tracebacks that differ in their digits alone are read."""
OF_EACH = 5
"""So many of each writer are read even then."""
_REACH = 1 << 16
"""Bytes behind its header in which a traceback has to tell its exception, to be held against others."""
_NEAR = 4000
"""Bytes in which its first frame stands."""
_MOST = 5000
_FRAME = rb'[\s|+]{0,40}File "'
_TIMES = re.compile(rb"(?<=[-:/.,T])\d+|\d+(?=[-:/.,T])")
_HEADER = HEADER.encode()
_OF_A_CELL = re.compile(rb"[A-Za-z_][\w.]{0,80} {2,}$")
"""What IPython puts before the header: the exception, which ended a cell of a notebook. Its kernel goes on behind it, so that the
last one decides, however many like it were before."""
_DIGITS = b"0123456789"


class Repeats:
    """The tracebacks of one file, each by its lines as far as that of its exception.

    Attributes:
        count: Those that were not read.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self.count = 0
        self._seen: dict[bytes, int] = {}
        self._of_writer: dict[tuple[bytes, Who], int] = {}
        self._ways: dict[bytes, tuple[tuple[re.Pattern[bytes], ...], ...]] = {}

    def often(self, page: Page, start: int, end: int, file: Who) -> bool:
        """Count the traceback whose header is this line, and say whether enough like it were read."""
        if _OF_A_CELL.match(page.data, start, max(page.data.find(_HEADER, start, end), start)):
            return False
        body = self._told(page.data, start, end)
        if body is None:
            return False  # without its end it is not told from others
        seen = self._seen.get(body, 0)
        if not seen and len(self._seen) >= _MOST:
            return False
        self._seen[body] = seen + 1
        writer = (body, page.quick_who(start, end, file))
        told = self._of_writer.get(writer, 0)
        if seen >= ENOUGH and told >= OF_EACH:
            self.count += 1
            return True
        if len(self._of_writer) < _MOST * OF_EACH:
            self._of_writer[writer] = told + 1
        return False

    def _told(self, data: bytes, start: int, end: int) -> bytes | None:
        """Return a traceback without its digits; None where its exception is not near, or another begins before it."""
        line = data[start:end]
        prefix = line[: max(line.find(_HEADER), 0)]
        whole, lines = self._lines_of(prefix, data, end)
        alone = whole.match(data, end, end + _REACH)
        if alone is not None and raised_in(alone[1].decode("utf-8", "replace")):
            return data[start : alone.end()].translate(None, _DIGITS)
        told = [line[len(prefix) :]]
        for match in lines.finditer(data, end, end + _REACH):
            text = match[1]
            if _HEADER in text:
                return None
            told.append(text)
            if text[:1].isalpha() and raised_in(text.decode("utf-8", "replace")):
                return b"\n".join(told).translate(None, _DIGITS)
        return None

    def _lines_of(self, prefix: bytes, data: bytes, end: int) -> tuple[re.Pattern[bytes], ...]:
        """Return what takes the lines of the one who printed a header: they begin as it does, with another time, or plainly."""
        if not prefix.strip():
            return _PLAIN
        ways = self._ways.get(prefix)
        if ways is None:
            if len(self._ways) >= _MOST:
                self._ways.clear()
            timed = rb"\d+".join(re.escape(part) for part in _TIMES.split(prefix))
            ways = self._ways[prefix] = tuple(_lines(before) for before in (re.escape(prefix), timed))
        return next((way[1:] for way in ways if way[0].search(data, end, end + _NEAR)), _PLAIN)


def _lines(before: bytes) -> tuple[re.Pattern[bytes], ...]:
    """Return what takes the first frame of a traceback whose lines begin so, all of it up to its exception, and each line."""
    first, blank, line = (rb"\n" + before + rest for rest in (_FRAME, rb"[ \t][^\r\n]*", rb"([^\r\n]*)"))
    return tuple(map(re.compile, (first, rb"(?:" + blank + rb")*" + line, line)))


_PLAIN = _lines(b"")[1:]
