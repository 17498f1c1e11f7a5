"""Who speaks in a file in which several do, how often, and where each falls silent: all lines of it are looked at, at once."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from preflight.source.logs.blocks import Block
from preflight.source.logs.clock import Clock
from preflight.source.logs.label_forms import LEARNT
from preflight.source.logs.pages import decoded, merged
from preflight.source.logs.prefixes import PLACED, LineStyle, head_of, plain
from preflight.source.logs.wrapped import unwrapped
from preflight.vocabulary.log import LogFile, Spoke, Who

_KNOWN = re.compile(rb"\n\[(?:rank|default|Rank |rank: |gpu|worker)(?=\d)")
_OTHER = re.compile(
    rb"\[(?=[Rr0-9p])(?:[Rr]ank[ :_=-]{0,2}\d+\]|(?:prte[\w.-]{0,100}@)?\d+,\d+\](?:\[[\w.:-]{1,120}\])?<std|\d+\]<std|pod/|\d+\]:)"
)
_WORKER = re.compile(rb"\n\((?:[A-Za-z_]\w{0,40}[ _])?(?:TP|rank=)\d")
"""Apart from the others: a search for one fixed beginning is many times faster than one for either of two."""
_WRAPPED = re.compile(
    rb'\n(?:\{"|(?:time|timestamp|ts|t|level|lvl|severity)=)(?=[^\n]{0,300}?(?i:rank|index|idx)(?:": ?"?|=)\d)'
)
"""What a logger wrapped in JSON, or in pairs of names and values, with the rank among them."""
_PIPED = re.compile(rb"\n[A-Za-z][\w.-]{0,60}[-_]\d{1,7} +\| ")
"""The name of a container with its number, as docker compose puts it before each line."""
_ON_EVERY_LINE = ("tags", "pods", "places", "numbered", "labelled", "behind", "spoken")
"""The styles of files in which every line bears a label."""
_END_OF_LINE = re.compile(rb"\n")
_LATEST = 80
"""A label that begins later than this in its line is none."""
_SPOT = 1 << 11
_SPOTS = 32
_PART = 1 << 16
"""Bytes that are looked at, of the beginning and of the end, for labels of other kinds."""
_FIRST = 400
"""Bytes of a first line in which a logger's names are looked for."""
_DIGITS = 7
_BEHIND = 32
_TEXT = 300
SHORT = 120
"""Characters that are kept of a line for what it says."""
_MOST = 65_536


class _Speaker:
    """One writer: where it spoke first and last."""

    __slots__ = ("count", "first_line", "first_text", "last_line", "last_text", "who")

    def __init__(self, who: Who, line: int, text: str) -> None:
        self.who = who
        self.count = 0
        self.first_line = self.last_line = line
        self.first_text = self.last_text = text


class Speakers:
    """The writers of the lines of one file."""

    def __init__(self, file: LogFile, style: LineStyle) -> None:
        """Begin; a file of one process needs none of it."""
        self._file = file
        self._style = style
        self._names: dict[tuple[bytes, int], Who] = {}
        self._found: dict[Who, _Speaker] = {}
        self._begun = False

    def see(self, block: Block) -> None:
        """Look at the lines of a block."""
        data = block.data
        sample = _sample(data, block.own)
        labels = list(dict.fromkeys(match[0][1:] for match in _KNOWN.finditer(sample))) if b"\n[" in sample else []
        if self._style == "srun":
            labels = [b""]
        for label in labels:
            self._see_all(block, label)
        if not labels and (not self._begun or block.last):
            self._see_some(block)
        self._begun = True

    def _see_all(self, block: Block, label: bytes) -> None:
        """Count the lines that begin with a label and a number; a block of 4 MB takes some milliseconds."""
        import numpy as np

        # Bytes behind the block's own, so that a number at its end can be read as any other.
        padded = block.data if len(block.data) >= block.own + _BEHIND else block.data + bytes(_BEHIND)
        data = np.frombuffer(padded, np.uint8, block.own + _BEHIND)
        starts = np.concatenate(([0], np.flatnonzero(data[: block.own] == 10) + 1))
        lines = np.arange(len(starts))
        numbers, lines = _numbered(np, data, starts, lines, label)
        if not len(numbers):
            return
        most = int(numbers.max()) + 1
        if most > _MOST:
            return
        counts = np.bincount(numbers, minlength=most)
        first: Any = np.zeros(most, np.int64)
        last: Any = np.zeros(most, np.int64)
        first[numbers[::-1]] = lines[
            ::-1
        ]  # of those with the same number the last one written stays: here the first line
        last[numbers] = lines
        for number in np.flatnonzero(counts).tolist():
            begin, end = int(first[number]), int(last[number])
            text = self._text(block, int(starts[begin]))
            who = self._names.get((label, number))
            if who is None:
                who = self._who(text)
                if who is None:
                    continue
                if label != b"[default":  # a place on a node: nodes have the same ones
                    self._names[label, number] = who
            speaker = self._found.get(who)
            if speaker is None:
                speaker = self._found[who] = _Speaker(who, block.line + begin, text)
            speaker.count += int(counts[number])
            speaker.last_line = block.line + end
            speaker.last_text = self._text(block, int(starts[end]))

    def _text(self, block: Block, start: int) -> str:
        end = block.data.find(b"\n", start, start + _TEXT)
        return unwrapped(plain(decoded(block.data[start : end if end >= 0 else start + _TEXT])))

    def _who(self, text: str) -> Who | None:
        who = head_of(text, self._style).who
        if who.rank is None and who.local_rank is None and who.node is None:
            return None
        return merged(Who(who.rank, who.node, who.local_rank), self._file.who)

    def _see_some(self, block: Block) -> None:
        """Look for labels of other kinds in the first lines of a file and in its last ones."""
        spots = [] if self._begun else [(0, min(block.own, _PART))]
        if block.last and block.own > _PART:
            spots.append((block.data.rfind(b"\n", 0, block.own - _PART) + 1, block.own))
        elif block.last and self._begun:
            spots.append((0, block.own))
        for start, stop in spots:
            line, place = 0, start
            labels = [match.start() for match in _OTHER.finditer(block.data, start, stop)]
            labels += [match.start() + 1 for match in _WORKER.finditer(block.data, start, stop)]
            labels += _piped(block.data, start, stop)
            labels += _wrapped(block.data, start, stop)
            if self._style in _ON_EVERY_LINE or self._style.startswith((LEARNT, PLACED)):
                labels += [start, *(match.end() for match in _END_OF_LINE.finditer(block.data, start, stop - 1))]
            for label in sorted(labels):
                begin = block.data.rfind(b"\n", max(label - _LATEST, 0), label) + 1
                if label - begin > _LATEST or (begin <= place and place > start):
                    continue
                line = (line or block.line + block.data.count(b"\n", 0, start)) + block.data.count(b"\n", place, begin)
                place = begin
                text = self._text(block, place)
                who = self._who(text)
                if who is None or len(self._found) >= _MOST or text.rstrip().endswith("]:"):
                    continue  # a number alone is that of an entry in a launcher's table
                speaker = self._found.setdefault(who, _Speaker(who, line, text))
                speaker.count += 1
                speaker.last_line, speaker.last_text = line, text

    def done(self, clock: Clock) -> list[Spoke]:
        """Return who spoke, where that is more than one."""
        if len(self._found) < 2:
            return []
        return [
            msgspec.structs.replace(
                Spoke(file=self._file.index, who=one.who, lines=one.count),
                first_line=one.first_line,
                last_line=one.last_line,
                first_time=self._time(one.first_text, clock),
                last_time=self._time(one.last_text, clock),
                last_text=said(one.last_text, self._style),
            )
            for one in self._found.values()
        ]

    def _time(self, text: str, clock: Clock) -> float | None:
        stamp = head_of(text, self._style).stamp
        return clock.at(stamp) if stamp is not None else None


def _wrapped(data: bytes, start: int, stop: int) -> list[int]:
    """Return where the lines begin that a logger wrapped, from the beginning of a line on."""
    first = _WRAPPED.match(b"\n" + data[start : min(start + _FIRST, stop)])
    behind = [match.start() + 1 for match in _WRAPPED.finditer(data, start, stop)]
    return [start, *behind] if first else behind


def _piped(data: bytes, start: int, stop: int) -> list[int]:
    """Return where lines begin with the name of a container, where most of them do: tables have names and bars as well."""
    if data.find(b" | ", start, stop) < 0:
        return []
    found = [match.start() + 1 for match in _PIPED.finditer(data, start, stop)]
    return found if 2 * len(found) > data.count(b"\n", start, stop) else []


def said(text: str, style: LineStyle) -> str:
    """Return what a line says behind its labels, cut short."""
    return text[head_of(text, style).end :].strip()[:SHORT]


def last_said(block: Block, style: LineStyle) -> str:
    """Return what the last line of a block says that is not empty; nothing of one that is very long."""
    text = block.data[max(block.own - _TEXT, 0) : block.own].rstrip()
    begin = max(text.rfind(b"\n"), text.rfind(b"\r"))
    return said(unwrapped(plain(decoded(text[begin + 1 :]))), style) if begin >= 0 or block.own <= _TEXT else ""


def _sample(data: bytes, own: int) -> bytes:
    """Return some of a block: its beginning, its end, and spots between; a label that is not there is not that of many lines."""
    spots = range(0, own, max(own // _SPOTS, _SPOT))
    return b"\n" + b"\n".join(data[spot : spot + _SPOT] for spot in spots) + data[max(own - _PART, 0) : own]


def _numbered(np: Any, data: Any, starts: Any, lines: Any, label: bytes) -> tuple[Any, Any]:
    """Return the number behind the label of each line that has one, and which lines those are."""
    keep = starts < len(data) - _BEHIND
    starts, lines = starts[keep], lines[keep]
    # Eight bytes at any place as one number: the label is compared at once, and its number read without going back.
    words = np.ndarray(len(data) - 7, "<u8", data, strides=(1,))
    if label:
        mask = (1 << 8 * min(len(label), 8)) - 1
        keep = (words[starts] & np.uint64(mask)) == np.uint64(int.from_bytes(label[:8], "little"))
        starts, lines = starts[keep], lines[keep]
    places = starts + len(label)
    if not label:  # srun pads its label
        for _ in range(_DIGITS):
            padded = data[places] == 32
            if not padded.any():
                break
            places = places + padded
    numbers = np.zeros(len(places), np.int64)
    going = np.ones(len(places), bool)
    length = np.zeros(len(places), np.int64)
    for _ in range(_DIGITS):
        digit = data[places] - np.uint8(48)  # what is no digit wraps around to more than 9
        going &= digit < 10
        if not going.any():
            break
        numbers = np.where(going, numbers * 10 + digit, numbers)
        length += going
        places = places + going
    good = (length > 0) & (data[places] == (ord("]") if label else ord(":")))
    return numbers[good], lines[good]
