"""Invariants files: JSON lines, one invariant each, in an order that follows from what they say."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from preflight.errors import InputError, UsageError, nearest
from preflight.vocabulary.finding import SEVERITY_ORDER
from preflight.vocabulary.invariant import Invariant, encoded, sort_key


def read_invariants(path: str | os.PathLike[str]) -> list[Invariant]:
    """Return the invariants of a file.

    Raises:
        InputError: It is missing, or a line is no invariant; the number of the line is named.
    """
    file = Path(path)
    if file.is_dir():
        if (file / "run.json").exists():
            raise InputError(
                f"{path} is a trace, not a file of invariants",
                f"preflight monitor check {shlex.quote(str(path))} reports on it",
            )
        raise InputError(f"{path} is a folder", "name the invariants file that is in it")
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        near = nearest(file.name, _beside(file))
        hint = (
            f"did you mean {file.with_name(near)}?" if near else "preflight monitor infer TRACE_DIR -o FILE makes one"
        )
        raise InputError(f"{path} does not exist", hint) from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    decoder = msgspec.json.Decoder(Invariant)
    found: list[Invariant] = []
    lines: dict[str, int] = {}
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        try:
            one = decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            what = "is not an invariants file" if number == 1 else "is damaged"
            raise InputError(f"{path} {what}: line {number}: {error}", _SHAPE) from None
        if one.id in lines:
            raise InputError(f"{path}: the id {one.id!r} of line {number} is that of line {lines[one.id]}")
        lines[one.id] = number
        found.append(one)
    return found


def _beside(file: Path) -> list[str]:
    """The names of the files of JSON lines in the folder of one that is not there."""
    try:
        return sorted(one.name for one in file.parent.iterdir() if one.suffix == ".jsonl")
    except OSError:
        return []


_SHAPE = (
    'each line is one invariant: {"id": ..., "relation": ..., "subject": {...}, "precondition": [...], "text": ...}'
)


def write_invariants(path: str | os.PathLike[str], invariants: Iterable[Invariant]) -> None:
    """Write a file, whole or not at all: sorted by relation, subject and id, so that files can be compared by lines.

    Raises:
        InputError: It cannot be written.
    """
    from preflight.errors import TraceError
    from preflight.monitor.trace.run_file import write_whole

    try:
        write_whole(Path(path), encoded(invariants))
    except TraceError as error:
        raise InputError(str(error)) from None


def find(invariants: Sequence[Invariant], ident: str) -> Invariant:
    """Return the invariant of an id, or of the beginning of one that fits no other.

    Raises:
        UsageError: There is none, or several.
    """
    exact = [one for one in invariants if one.id == ident]
    fitting = exact or [one for one in invariants if one.id.startswith(ident)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise UsageError(f"{ident!r} is the beginning of {len(fitting)} ids", f"one of {_some(fitting)}")
    near = nearest(ident, [one.id for one in invariants])
    raise UsageError(
        f"no invariant has the id {ident!r}", f"did you mean {near}?" if near else "preflight monitor show lists them"
    )


def _some(invariants: Sequence[Invariant]) -> str:
    names = [one.id for one in invariants[:5]]
    return ", ".join(names) + (" ..." if len(invariants) > 5 else "")


def change(
    path: str | os.PathLike[str], idents: Sequence[str], how: Callable[[Invariant], Invariant]
) -> list[Invariant]:
    """Change some invariants of a file in place; return them as they are now.

    Raises:
        InputError: The file cannot be read or written.
        UsageError: There is no such invariant; then nothing is written.
    """
    invariants = read_invariants(path)
    wanted = {find(invariants, ident).id for ident in idents}
    changed = [how(one) if one.id in wanted else one for one in invariants]
    write_invariants(path, changed)
    return [one for one in changed if one.id in wanted]


def merge(parts: Sequence[Sequence[Invariant]], everything: bool = False) -> list[Invariant]:
    """Return one list of invariants from several that were learnt apart.

    Args:
        parts: The lists. An invariant is known by its id.
        everything: Whether to keep what only some lists have; else only what all have, and what is pinned.
    """
    by_id: dict[str, list[Invariant]] = {}
    for part in parts:
        for one in part:
            by_id.setdefault(one.id, []).append(one)
    merged = [
        _one_of(same)
        for same in by_id.values()
        if everything or len(same) == len(parts) or any(one.pinned for one in same)
    ]
    return sorted(merged, key=sort_key)


def _one_of(same: Sequence[Invariant]) -> Invariant:
    """Return one invariant of several that say the same; what a person said of one counts for all."""
    support = sum(one.support for one in same)
    weighed = sum(one.support * one.confidence for one in same)
    reasons = [one.suppressed for one in same if one.suppressed is not None]
    first = same[0]
    origins = {one.source.origin for one in same}
    source = msgspec.structs.replace(
        first.source,
        origin="person" if "person" in origins else "library" if "library" in origins else "learnt",
        runs=tuple(sorted({run for one in same for run in one.source.runs})),
        torch=tuple(sorted({version for one in same for version in one.source.torch})),
    )
    return msgspec.structs.replace(
        first,
        support=support,
        confidence=weighed / support if support else min(one.confidence for one in same),
        severity=min((one.severity for one in same), key=SEVERITY_ORDER.__getitem__),
        pinned=any(one.pinned for one in same),
        suppressed=reasons[0] if reasons else None,
        source=source,
    )


def keep_said(before: Sequence[Invariant], learnt: Sequence[Invariant]) -> list[Invariant]:
    """Return what was learnt, with what a person said of the same invariants before, and with those that are pinned."""
    known = {one.id: one for one in before}
    found = [
        msgspec.structs.replace(one, pinned=known[one.id].pinned, suppressed=known[one.id].suppressed)
        if one.id in known
        else one
        for one in learnt
    ]
    here = {one.id for one in found}
    return found + [one for one in before if one.pinned and one.id not in here]
