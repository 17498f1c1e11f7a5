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
    nodes = {scene.case.people.node_of.get(rank) for rank in silent}
    if len(nodes) == 1 and (node := nodes.pop()) is not None and set(scene.case.people.of_node(node)) == set(silent):
        return 1.0
    return float(1.0 / len(silent))


def _files(scene: Scene) -> dict[int, tuple[int, int]]:
    """Return the ranks that have lines of their own, with a file and the number of the last line."""
    found: dict[int, tuple[int, int]] = {}
    people = scene.case.people
    for file in scene.case.reading.files:
        if file.kind == "text" and file.who.rank is not None and file.lines:
            found[file.who.rank] = (file.index, file.lines)
    for spoke in scene.case.reading.spoke:
        rank = people.rank_of(spoke.who, spoke.file)
        if rank is not None:
            found.setdefault(rank, (spoke.file, spoke.last_line or 0))
    if not scene.case.reading.spoke:
        for place, who in [(hit, hit.who) for hit in scene.case.reading.hits]:
            if who.rank is not None:
                found.setdefault(who.rank, (place.file, place.line))
    return found
