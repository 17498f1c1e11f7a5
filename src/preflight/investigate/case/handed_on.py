"""Whose lines are that a parent or a driver prints for a process of its own."""

from __future__ import annotations

import re

from preflight.vocabulary.log import Place, Reading, Who

HANDS_ON = ("elastic.ray-task-error", "usercode.rpc-remote-error")
"""The signatures of the lines with which a driver, or who called, hands on what a worker raised."""
_RAISED = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt)(?=:|$)")
_FRAMES = 160
"""Lines that the frames of a worker take, at the most, before what it raised."""


def handed_on_in(reading: Reading) -> dict[Place, Who]:
    """Return whose lines are that a parent or a driver prints, as it was handed them by a process of which it tells right above."""
    told = {(one.file, one.line): one.about for one in reading.endings if one.teller == "spawn"}
    spans = [
        (one.hit.file, one.begins, one.hit.line, told[one.hit.file, one.begins - 1])
        for one in reading.raised
        if one.begins is not None and (one.hit.file, one.begins - 1) in told
    ]
    said = [*reading.hits, *(one.hit for one in reading.raised), *(one.first for one in reading.unknown)]
    for hit in reading.hits:
        if hit.signature not in HANDS_ON or hit.about is None:
            continue
        below = (
            one.line
            for one in said
            if one.file == hit.file and 0 < one.line - hit.line <= _FRAMES and _RAISED.match(one.text)
        )
        spans.append((hit.file, hit.line, min(below, default=hit.line), hit.about))
    if not spans:
        return {}
    places = [hit.place for hit in said]
    return {
        (file, line): who
        for of, begin, end, who in spans
        for file, line in places
        if file == of and begin <= line <= end
    }
