"""Whose a file is, where neither its name nor a label on every line tells it: the one whom all of its labels name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from preflight.source.logs.pages import decoded, merged
from preflight.source.logs.prefixes import LineStyle, head_of, plain
from preflight.source.logs.reduced import ROWS, Reduced
from preflight.source.logs.wrapped import unwrapped
from preflight.vocabulary.log import Who

_LOOKED_AT = 3 << 12
_MOST_LINES = 160
_OWNED = 2


def owner_of(sample: bytes, style: LineStyle) -> Who | None:
    """Return who wrote all of the first lines of a file that name a rank or a machine, where they all name the same one."""
    whole = plain(decoded(sample[:_LOOKED_AT])).split("\n")[:_MOST_LINES]
    told = [head_of(unwrapped(line), style).who for line in whole if line.strip()]
    found = {Who(who.rank, who.node, who.local_rank) for who in told} - {Who()}
    if len(found) != 1:
        return None
    only = next(iter(found))
    # One line is enough to tell the machine; of ranks one alone may say who it is in a file of all.
    return only if only.rank is None or len(told) - told.count(Who()) >= _OWNED else None


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
