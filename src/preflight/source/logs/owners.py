"""Whose a file is, where neither its name nor a label on every line tells it: the one whom all of its labels name."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec

from preflight.source.logs.pages import decoded, merged
from preflight.source.logs.prefixes import LineStyle, head_of, plain
from preflight.source.logs.reduced import ROWS, Process, Reduced
from preflight.source.logs.wrapped import unwrapped
from preflight.vocabulary.log import Who

_LOOKED_AT = 3 << 12
_MOST_LINES = 60
_OWNED = 2
_MOST_SAID = 1000
_FIRST = 24
_SAYS = re.compile(r"(?<![\w-])(?i:(?:global )?rank)[ _:=#]{0,2}(\d{1,7})(?![\d.])")


def owner_of(sample: bytes, style: LineStyle) -> Who | None:
    """Return who wrote all of the first lines of a file that name a rank or a machine, where they all name the same one."""
    whole = plain(decoded(sample[:_LOOKED_AT])).split("\n")[:_MOST_LINES]
    only, count = None, 0
    for line in whole:
        who = head_of(unwrapped(line), style).who
        named = Who(who.rank, who.node, who.local_rank)
        if named == Who():
            continue
        if only not in (None, named):
            return None
        only, count = named, count + 1
    if only is None:
        return None
    # One line is enough to tell the machine; of ranks one alone may say who it is in a file of all.
    return only if only.rank is None or count >= _OWNED else None


def ranks_told(sample: bytes, style: LineStyle) -> list[Process]:
    """Return the ranks of processes of which the labels tell the number alone, where each says its rank in its own lines.

    All from nought have to be there, each of one process.
    """
    if b"rank" not in sample and b"Rank" not in sample:
        return []
    told: dict[tuple[str | None, int], set[int]] = defaultdict(set)
    numbered = False
    for place, line in enumerate(plain(decoded(sample)).split("\n")[:_MOST_SAID]):
        head = head_of(unwrapped(line), style)
        numbered = numbered or head.who.pid is not None
        if place > _FIRST and not numbered:
            break
        said = _SAYS.search(line, head.end) if head.who.pid is not None and head.who.rank is None else None
        if said is not None and head.who.pid is not None:
            told[head.who.node, head.who.pid].add(int(said[1]))
    ranks = [rank for found in told.values() for rank in found]
    if len(told) < _OWNED or len(ranks) != len(told) or set(ranks) != set(range(len(told))):
        return []
    return [Process(Who(rank, node, pid=pid)) for (node, pid), (rank,) in told.items()]


def owned(parts: Sequence[Reduced]) -> Sequence[Reduced]:
    """Give each file the writer that its own lines name, where they are the files of several, each of one.

    What stands in them without a label, as tracebacks do, is by the same one. One file alone may be that of all, of whom one
    alone bears a label.
    """
    told = [part.owner for part in parts if part.owner is not None]
    others = [part for part in parts if part.owner is None and part.file.kind == "text" and len(part.spoke) > 1]
    if len(told) < 2 or len(set(told)) < len(told) or others:
        return parts
    return [_owned_by(part, part.owner) if part.owner is not None else part for part in parts]


def _owned_by(part: Reduced, owner: Who) -> Reduced:
    rows: dict[str, Any] = {"file": msgspec.structs.replace(part.file, who=merged(part.file.who, owner))}
    for name in ROWS:
        rows[name] = [_row_by(row, owner) for row in getattr(part, name)]
    return msgspec.structs.replace(part, **rows)


def _row_by(row: Any, owner: Who) -> Any:
    """Return a row with its writer, where it names none or only a part of him."""
    changes: dict[str, Any] = {}
    who = getattr(row, "who", None)
    if isinstance(who, Who):
        changes["who"] = merged(who, owner)
    inner = getattr(row, "hit", None)
    if inner is not None:
        changes["hit"] = _row_by(inner, owner)
    return msgspec.structs.replace(row, **changes) if changes else row
