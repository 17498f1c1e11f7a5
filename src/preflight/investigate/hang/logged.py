"""Stacks that a program printed into its log: faulthandler on a timer or a signal, beside everything else that it says."""

from __future__ import annotations

import os
import re

import msgspec

from preflight.source.dumps.stack_dump import stacks_of
from preflight.vocabulary.log import Hit, Reading, Stack

SIGNATURE = "stacks.thread"
# A line of a stack behind whatever the launcher or the logger put before it.
_LINE = re.compile(r'(?:Current thread|Thread) 0x[0-9a-fA-F]+ .*$|  File ".*$')
_LARGEST = 4 << 20
_PACKED = (".gz", ".zst", ".bz2", ".xz", ".zip", ".tar", ".tgz")


def logged_stacks(reading: Reading) -> tuple[Stack, ...]:
    """Return the stacks in the logs of a reading; of a rank that printed them several times all of them, in order."""
    first: dict[tuple[int, int | None], Hit] = {}
    for hit in reading.hits:
        if hit.signature == SIGNATURE:
            key = (hit.file, hit.who.rank)
            if key not in first or hit.offset < first[key].offset:
                first[key] = hit
    paths = {file.index: file for file in reading.files}
    found: list[Stack] = []
    for (index, _), hit in first.items():
        file = paths.get(index)
        if file is None or file.kind == "stacks" or file.path.endswith(_PACKED) or not os.path.isfile(file.path):
            continue
        who = (
            hit.who
            if hit.who.rank is not None
            else msgspec.structs.replace(hit.who, rank=file.who.rank, node=file.who.node)
        )
        found += stacks_of(_lines(file.path, hit), who, index)
    return tuple(found)


def _lines(path: str, hit: Hit) -> list[str]:
    """Return the lines of stacks from a hit on, of the same writer where several write one file."""
    with open(path, "rb") as file:
        file.seek(hit.offset)
        text = file.read(_LARGEST).decode("utf-8", "replace")
    start = _LINE.search(hit.text)
    label = re.match(r"\S+", hit.text[: start.start()]) if start and start.start() else None
    lines = []
    for line in text.splitlines():
        if label is not None and not line.startswith(label.group(0)):
            continue
        match = _LINE.search(line)
        if match:
            lines.append(match.group(0))
    return lines
