"""Whose lines are that a parent or a driver prints for a process of its own."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping

from preflight.source.logs.prefixes import head_of
from preflight.vocabulary.log import Hit, Place, Reading, Who

HANDS_ON = ("elastic.ray-task-error", "usercode.rpc-remote-error")
"""The signatures of the lines with which a driver, or who called, hands on what a worker raised."""
NAMES_ITS_RANK = "checkpoint.dcp"
"""Below it torch prints on every rank what was raised on those that it names."""
_RAISED = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt)(?=:|$)")
_FRAMES = 160
"""Lines that the frames of a worker take, at the most, before what it raised."""


def handed_on_in(reading: Reading) -> dict[Place, Who]:
    """Return whose lines are that a parent or a driver prints, as it was handed them by a process of which it tells right above."""
    told = {(one.file, one.line): one.about for one in reading.endings if one.teller in ("spawn", "process")}
    spans = [
        (one.hit.file, one.begins, one.hit.line, told[one.hit.file, one.begins - 1])
        for one in reading.raised
        if one.begins is not None and (one.hit.file, one.begins - 1) in told
    ]
    owners = [(hit, owner) for hit in reading.hits if (owner := _owner(hit)) is not None]
    if not spans and not owners:
        return {}
    said = _by_line([*reading.hits, *(one.hit for one in reading.raised), *(one.first for one in reading.unknown)])
    for hit, owner in owners:
        below = (
            one.line
            for one in _between(said, hit.file, hit.line + 1, hit.line + _FRAMES)
            if one.who == hit.who and _raises(one.text)
        )
        last = min(below, default=hit.line)
        # What says whose it is, the process says that prints it.
        spans.append((hit.file, hit.line + (hit.signature == NAMES_ITS_RANK), last, owner))
    return {one.place: who for of, begin, end, who in spans for one in _between(said, of, begin, end)}


def _by_line(said: Iterable[Hit]) -> dict[int, list[Hit]]:
    """Return lines by their file, in order: thousands of ranks say the same, and nobody looks through all for each."""
    found: dict[int, list[Hit]] = {}
    for one in said:
        found.setdefault(one.file, []).append(one)
    for lines in found.values():
        lines.sort(key=_line)
    return found


def _between(said: Mapping[int, list[Hit]], file: int, begin: int, end: int) -> list[Hit]:
    """Return what was said in a file from one line to another, both of them with it."""
    lines = said.get(file, [])
    return lines[bisect_left(lines, begin, key=_line) : bisect_right(lines, end, key=_line)]


def _line(hit: Hit) -> int:
    return hit.line


def _raises(text: str) -> bool:
    """Return whether a line names an exception, behind whatever launchers put before it."""
    return _RAISED.match(text, head_of(text).end) is not None


def _owner(hit: Hit) -> Who | None:
    """Return whose lines stand below one that hands them on; None where it hands on none, or those of several."""
    ranks = hit.fields.get("ranks") if hit.signature == NAMES_ITS_RANK else None
    if isinstance(ranks, tuple) and len(ranks) == 1 and isinstance(ranks[0], int):
        return Who(ranks[0])
    return hit.about if hit.signature in HANDS_ON else None
