"""Who speaks in a file in which several do: found in its beginning and its end, so that it is known who fell silent."""

from __future__ import annotations

import re

import msgspec

from preflight.source.logs.blocks import Block
from preflight.source.logs.pages import decoded, merged
from preflight.source.logs.prefixes import LineStyle, head_of, plain
from preflight.vocabulary.log import LogFile, Spoke, Who

_LABELS = re.compile(
    rb"(?m)^[ \t]*(?:\[(?:rank|default) ?\d+\]:?|\d{1,7}: ?|\[(?:gpu|worker|rank)[ :_-]?\d+\])", re.IGNORECASE
)
_PART = 1 << 18
"""Bytes that are looked at, of the beginning and of the end."""
_MOST = 65_536


class Speakers:
    """The writers of the lines of one file."""

    def __init__(self, file: LogFile, style: LineStyle) -> None:
        """Begin; a file of one process needs none of it."""
        self._file = file
        self._style = style
        self._labels: dict[bytes, Who] = {}
        self._found: dict[Who, Spoke] = {}
        self._begun = False

    def see(self, block: Block) -> None:
        """Look at the first block and at the last one."""
        if not self._begun:
            self._begun = True
            self._look(block.data[:_PART], block.line)
        if block.last:
            data = block.data[: block.own]
            start = max(len(data) - _PART, 0)
            start = data.rfind(b"\n", 0, start) + 1
            self._look(data[start:], block.line + data.count(b"\n", 0, start))

    def _look(self, data: bytes, line: int) -> None:
        place = 0
        for match in _LABELS.finditer(data):
            line += data.count(b"\n", place, match.start())
            place = match.start()
            label = match[0].strip()
            who = self._labels.get(label)
            if who is None:
                if len(self._labels) >= _MOST:
                    return
                end = data.find(b"\n", place)
                text = plain(decoded(data[place : end if end >= 0 else len(data)]))
                who = self._labels[label] = merged(head_of(text, self._style).who, self._file.who)
            if who.rank is None and who.local_rank is None:
                continue
            one = self._found.get(who)
            if one is None:
                self._found[who] = Spoke(file=self._file.index, who=who, lines=1, first_line=line, last_line=line)
            elif one.last_line is not None and line > one.last_line:
                self._found[who] = msgspec.structs.replace(one, lines=one.lines + 1, last_line=line)

    def done(self) -> list[Spoke]:
        """Return who spoke, where that is more than one."""
        return list(self._found.values()) if len(self._found) > 1 else []
