"""The years of files whose lines bear none: the date of a copied file is that of the copy, other files know better."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from preflight.source.logs.reduced import Reduced

_HALF = 183 * 86400.0
_TIMED = ("hits", "steps", "endings", "spoke")


def same_year(parts: Sequence[Reduced]) -> list[Reduced]:
    """Return the parts, those with a guessed year moved to the year of the ones that tell it.

    A table of torchrun tells the year in a file whose other lines do not.
    """
    told = [part.file.last_time for part in parts if not part.year_guessed and not part.undated and part.file.last_time]
    told += [
        ending.time for part in parts for ending in part.endings if ending.time is not None and not ending.time % 1
    ]
    sure = sorted(time for time in told if time > _HALF * 2)
    guessed = [part.file.last_time for part in parts if part.year_guessed and part.file.last_time is not None]
    if not sure or not guessed:
        return list(parts)
    near = sure[len(sure) // 2]
    return [_moved(part, near) if part.year_guessed else part for part in parts]


def _moved(part: Reduced, near: float) -> Reduced:
    last = part.file.last_time
    shift = _shift(last, near) if last is not None else 0.0
    if not shift:
        return part
    rows: dict[str, Any] = {name: [_row(row, shift, near) for row in getattr(part, name)] for name in _TIMED}
    rows["raised"] = [msgspec.structs.replace(one, hit=_row(one.hit, shift, near)) for one in part.raised]
    rows["unknown"] = [msgspec.structs.replace(one, first=_row(one.first, shift, near)) for one in part.unknown]
    file = msgspec.structs.replace(
        part.file,
        first_time=None if part.file.first_time is None else part.file.first_time + shift,
        last_time=None if last is None else last + shift,
    )
    return msgspec.structs.replace(part, file=file, **rows)


def _row(row: Any, shift: float, near: float) -> Any:
    """Move the times of a row that lie as far off as the file did."""
    changes = {
        name: time + shift
        for name in ("time", "first_time", "last_time")
        if (time := getattr(row, name, None)) is not None and abs(time + shift - near) < abs(time - near)
    }
    return msgspec.structs.replace(row, **changes) if changes else row


def _shift(time: float, near: float) -> float:
    """Return by how much a time has to be moved to lie in the year in which it is nearest to another, in whole days."""
    from datetime import datetime, timezone

    shown = datetime.fromtimestamp(time, timezone.utc)
    year = datetime.fromtimestamp(near, timezone.utc).year
    moved = []
    for other in (year - 1, year, year + 1):
        try:
            moved.append(shown.replace(year=other).timestamp())
        except ValueError:  # 29 February
            moved.append(shown.replace(year=other, day=28).timestamp() + 86400.0)
    nearest = min(moved, key=lambda one: abs(one - near))
    return nearest - time if abs(time - near) > _HALF else 0.0
