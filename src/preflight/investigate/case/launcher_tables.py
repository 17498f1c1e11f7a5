"""The tables that torchrun prints at the end: which lines stand in one, and in whose entry."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

import msgspec

from preflight.vocabulary.log import Hit, Reading


def tables_of(reading: Reading) -> dict[int, int]:
    """Return the line at which the first table of a launcher begins, for each file that holds one."""
    found: dict[int, int] = {}
    for ending in reading.endings:
        if ending.teller == "torchrun" and ending.message is not None and None not in (ending.file, ending.line):
            file, line = ending.file or 0, ending.line or 0
            found[file] = min(line, found.get(file, line))
    return found


def entries_of(reading: Reading) -> dict[int, list[Hit]]:
    """Return the lines with which the entries of a launcher's tables begin, for each file that holds one."""
    found: dict[int, list[Hit]] = {}
    for hit in reading.hits:
        if hit.signature == "elastic.summary" and hit.about is not None:
            found.setdefault(hit.file, []).append(hit)
    return found


def of_entry(entries: Mapping[int, Sequence[Hit]], hit: Hit) -> Hit:
    """Return a line of a launcher's table as that of the rank whose entry it stands in."""
    of_file = entries.get(hit.file, ())
    at = bisect_right([one.line for one in of_file], hit.line) - 1
    return msgspec.structs.replace(hit, who=of_file[at].about or hit.who) if at >= 0 else hit
