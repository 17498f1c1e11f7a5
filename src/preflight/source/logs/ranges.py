"""Cuts very large files into parts that are read beside each other, and puts what the parts gave together again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from preflight.source.logs.one_file import Wanted
from preflight.source.logs.opening import packing_of
from preflight.source.logs.reduced import Reduced
from preflight.source.logs.signing import KEPT
from preflight.source.logs.styles import is_text
from preflight.vocabulary.log import Hit, Spoke, Unknown, Who

PART = 128 << 20
_NEAR_A_CUT = 1 << 12
"""Bytes around a cut that tell how the text is written there."""
_ROWS = ("raised", "steps", "endings")


def parted(work: Sequence[Wanted], part: int = PART) -> list[Wanted]:
    """Return the work with the files that are larger than two parts cut; what is packed, or no text, is not.

    Nor is one that would be cut in a stretch of UTF-16: lines would be read twice there.
    """
    found: list[Wanted] = []
    for wanted in work:
        size = wanted.source.size
        if size < 2 * part or not _plain(wanted, range(part, size, part)):
            found.append(wanted)
            continue
        count = -(-size // part)
        for number in range(count):
            end = (number + 1) * part if number + 1 < count else None
            steps = max(wanted.most_steps // count, 2)
            found.append(msgspec.structs.replace(wanted, begin=number * part, end=end, most_steps=steps))
    return found


def _plain(wanted: Wanted, cuts: Iterable[int]) -> bool:
    source = wanted.source
    if source.packing or source.archive or source.problem or source.content is not None:
        return False
    try:
        with open(source.place, "rb") as stream:
            head = stream.read(1 << 16)
            if packing_of(head, source.path) or not is_text(head) or b"\0" in head:
                return False
            for cut in cuts:
                stream.seek(max(cut - _NEAR_A_CUT // 2, 0))
                if b"\0" in stream.read(_NEAR_A_CUT):
                    return False
    except OSError:
        return False
    return True


def whole(parts: Sequence[Reduced]) -> Reduced:
    """Return what a file gave of which these are the parts, in their order."""
    if len(parts) == 1:
        return parts[0]
    result = msgspec.structs.replace(parts[0], hits=[], raised=[], steps=[], endings=[], spoke=[], unknown=[])
    hits: dict[tuple[str, Who], list[list[Hit]]] = defaultdict(list)
    lines = 0
    spoke: dict[Who, list[Spoke]] = defaultdict(list)
    for part in parts:
        for name in _ROWS:
            getattr(result, name).extend(_moved(row, lines) for row in getattr(part, name))
        by_writer: dict[tuple[str, Who], list[Hit]] = defaultdict(list)
        for hit in part.hits:
            by_writer[hit.signature, Who(hit.who.rank, hit.who.node, hit.who.local_rank)].append(_moved(hit, lines))
        for key, found in by_writer.items():
            hits[key].append(found)
        for one in part.spoke:
            spoke[one.who].append(_moved(one, lines))
        result.unknown.extend(
            msgspec.structs.replace(one, first=_moved(one.first, lines), last=(one.last[0], one.last[1] + lines))
            for one in part.unknown
        )
        for size, count in part.world_sizes.items():
            result.world_sizes[size] = result.world_sizes.get(size, 0) + (count if part is not parts[0] else 0)
        if part is not parts[0]:
            result.processes.extend(part.processes)
            result.notes.extend(part.notes)
        lines += part.file.lines
    for groups in hits.values():
        result.hits += _merged_hits(groups)
    result.hits.sort(key=lambda hit: (hit.offset, hit.signature))
    result.spoke = [_merged_spoke(found) for found in spoke.values()]
    result.unknown = _merged_unknown(result.unknown, lines)
    result.file = _file(parts, lines)
    return result


def _file(parts: Sequence[Reduced], lines: int) -> Any:
    firsts = [part.file.first_time for part in parts if part.file.first_time is not None]
    lasts = [part.file.last_time for part in parts if part.file.last_time is not None]
    return msgspec.structs.replace(
        parts[0].file,
        size=sum(part.file.size for part in parts),
        lines=lines,
        first_time=min(firsts, default=None),
        last_time=max(lasts, default=None),
        last_text=parts[-1].file.last_text,
        problem=next((part.file.problem for part in parts if part.file.problem), None),
    )


def _moved(row: Any, lines: int) -> Any:
    """Return a row with the number of its line counted from the beginning of the file."""
    if not lines:
        return row
    changes: dict[str, Any] = {}
    for name in ("line", "first_line", "last_line"):
        number = getattr(row, name, None)
        if number is not None:
            changes[name] = number + lines
    if getattr(row, "hit", None) is not None:
        changes["hit"] = _moved(row.hit, lines)
    return msgspec.structs.replace(row, **changes)


def _merged_hits(groups: list[list[Hit]]) -> list[Hit]:
    """Keep the first and the last lines of a writer, and count those of all parts."""
    if len(groups) == 1:
        return groups[0]
    count = sum(found[0].times_seen for found in groups)
    kept = [hit for found in groups for hit in found]
    if len(kept) > 2 * KEPT:
        kept = [*kept[:KEPT], *kept[-KEPT:]]
    return [msgspec.structs.replace(hit, times_seen=count) for hit in kept]


def _merged_spoke(found: list[Spoke]) -> Spoke:
    times = [one.first_time for one in found if one.first_time is not None]
    lasts = [one.last_time for one in found if one.last_time is not None]
    return msgspec.structs.replace(
        found[0],
        lines=sum(one.lines for one in found),
        last_line=found[-1].last_line,
        first_time=times[0] if times else None,
        last_time=lasts[-1] if lasts else None,
        last_text=found[-1].last_text,
    )


def _merged_unknown(found: list[Unknown], lines: int) -> list[Unknown]:
    """Join what the parts of a file of so many lines have in common; a later part stands behind an earlier one."""
    merged: dict[str, Unknown] = {}
    for one in found:
        other = merged.get(one.template)
        merged[one.template] = (
            one
            if other is None
            else msgspec.structs.replace(
                other, count=other.count + one.count, ranks=tuple(sorted({*other.ranks, *one.ranks})), last=one.last
            )
        )
    return [msgspec.structs.replace(one, behind=lines - one.last[1]) for one in merged.values()]
