"""Who says nothing: the only trace of a process that was killed, stopped or cut off with its node."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.investigate.culprit.vote import Scene, Vote
from preflight.vocabulary.incident import Quote


def votes(scene: Scene) -> Iterator[Vote]:
    """Vote for ranks without a log among ranks that have one, and for ranks that are silent at the end."""
    case = scene.case
    speaking = _files(scene)
    if len(speaking) < 2:
        return
    everybody = set(case.people.ranks())
    missing = sorted(everybody - set(speaking))
    if missing and len(missing) <= len(everybody) // 2:
        for rank in missing:
            yield Vote(kind="no-log", rank=rank, strength=_share(scene, missing),
                       text=f"has no log, while {len(speaking)} other ranks have one")  # fmt: skip
    complaining = {event.rank for event in scene.failing if event.rank is not None}
    quiet = sorted(rank for rank in speaking if rank not in complaining)
    if quiet and len(complaining & set(speaking)) >= 1 and len(quiet) <= len(speaking) // 2:
        for rank in quiet:
            file, lines = speaking[rank]
            yield Vote(
                kind="silent",
                rank=rank,
                strength=_share(scene, quiet),
                text=f"ends without a word, while {len(complaining & set(speaking))} other ranks report a failure",
                quotes=(Quote(case.path(file), lines, "(last line of its log)"),) if lines else (),
            )


def _share(scene: Scene, silent: list[int]) -> float:
    """Return how much the silence of one of several says: all ranks of a node are as silent as one rank."""
    if len(silent) > 1 and set(scene.case.people.block(silent[0])) == set(silent):
        return 1.0
    return float(1.0 / len(silent))


def _files(scene: Scene) -> dict[int, tuple[int, int]]:
    """Return the ranks that have lines of their own, with a file and the number of the last line."""
    found: dict[int, tuple[int, int]] = {}
    people = scene.case.people
    for one in scene.case.reading.files:
        if one.kind == "text" and one.who.rank is not None and one.lines:
            found[one.who.rank] = (one.index, one.lines)
    for spoke in scene.case.reading.spoke:
        rank = people.rank_of(spoke.who, spoke.file)
        if rank is not None:
            found.setdefault(rank, (spoke.file, spoke.last_line or 0))
    told = [(hit.who, hit.file, hit.line) for hit in scene.case.reading.hits]
    told += [(step.who, step.file, step.line) for step in scene.case.steps]
    for who, file, line in told:
        rank = people.rank_of(who, file)
        if rank is not None:
            found.setdefault(rank, (file, line))
    return found
