"""The invariants that are in force: the shipped library, or those of files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from preflight.errors import InputError, nearest
from preflight.monitor.invariants_file import read_invariants
from preflight.monitor.relation import relations
from preflight.vocabulary.invariant import Invariant, Provenance

OWN = Path(".preflight") / "invariants.jsonl"
"""What a project says of shipped invariants, and its own ones: read where no file is named."""
FOLDER = Path(__file__).resolve().parent / "library"


def shipped() -> list[Invariant]:
    """The shipped library: its files, and the general statement of every relation that they do not speak of."""
    found: list[Invariant] = []
    if FOLDER.is_dir():
        for file in sorted(FOLDER.glob("*.jsonl")):
            found += read_invariants(file)
    spoken = {one.relation for one in found}
    return found + [
        general(name)
        for name, kind in relations().items()
        if not kind.learns and not kind.predicted and name not in spoken
    ]


def general(name: str) -> Invariant:
    """What a relation says of everything that it speaks of.

    Raises:
        UsageError: There is no such relation.
    """
    from preflight.monitor.relation import relation

    kind = relation(name)
    return Invariant(
        id=name, relation=name, text=kind.title(), severity=kind.severity, source=Provenance(origin="library")
    )


def several(given: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str | os.PathLike[str]]:
    """Return the files that a caller gave: one by itself, or several."""
    return [given] if isinstance(given, (str, os.PathLike)) else list(given)


def in_force(files: Sequence[str | os.PathLike[str]] = (), catalog: Iterable[str] = ()) -> list[Invariant]:
    """The invariants of the files; where none is given, the shipped library, those of a catalog and of the project.

    Where the files hold nothing but what a dry run predicts, that comes beside the library, not in its place.

    Args:
        files: Invariants files; where an id is in several, the last one counts.
        catalog: Folders of the user's own catalog; files ``*.jsonl`` in their folder ``invariants`` are read.

    Raises:
        InputError: A file cannot be read, or names a relation that is not known.
    """
    found = [one for file in files for one in read_invariants(file)]
    predicted = [one for one in found if one.source.origin == "prediction"]
    if len(predicted) == len(found):
        own = [file for folder in catalog for file in sorted((Path(folder) / "invariants").glob("*.jsonl"))]
        own += [OWN] if OWN.is_file() else []
        found = shipped() + [one for file in own for one in read_invariants(file)] + predicted
    _refuse_unknown(found, [*files])
    return list({one.id: one for one in found}.values())


def _refuse_unknown(found: Iterable[Invariant], files: Sequence[str | os.PathLike[str]]) -> None:
    known = relations()
    for one in found:
        if one.relation not in known:
            near = nearest(one.relation, known)
            where = f" in {', '.join(map(str, files))}" if files else ""
            raise InputError(
                f"invariant {one.id!r}{where} is of a relation {one.relation!r} that is not known",
                f"did you mean {near}?" if near else "preflight list relations shows all",
            )


def needs_of(invariants: Iterable[Invariant]) -> set[str]:
    """Names of calls and rows that the relations of some invariants look at."""
    known = relations()
    return {need for one in invariants if one.relation in known for need in known[one.relation].needs}
