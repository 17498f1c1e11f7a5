"""Who says nothing: the only trace of a process that was killed, stopped or cut off with its node."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.investigate.case.excerpts import is_excerpt
from preflight.investigate.case.lost import lost_logs
from preflight.investigate.culprit.exit_code import stopped
from preflight.investigate.culprit.sizes import got_too_much
from preflight.investigate.culprit.vote import Scene, Vote, speaks_for_itself, tells_of_others
from preflight.vocabulary.incident import Quote

_BESIDE_A_CAUSE = 0.4
_CUT_SHORT = 0.4
_FOLDED = "benign.ray-repeated"
_NOT_COLLECTED = 0.35
_LOST = 0.35
_SEVERAL = 3


def votes(scene: Scene) -> Iterator[Vote]:
    """Vote for ranks without a log among ranks that have one, and for ranks that are silent at the end."""
    case = scene.case
    speaking = _files(scene)
    if len(speaking) < 2:
        return
    missing = missing_ranks(scene)
    # Where one that speaks names a cause of its own, that logs are missing may be due to who collected them.
    named = any(event.rank is not None and speaks_for_itself(event) for event in scene.roots())
    # Who was stopped as soon as the first one had failed had no time to say anything.
    cut_short = stopped(scene) if not scene.waited else set()
    # Where a part of the logs is lost, so may be what names the cause, and who is silent in the rest is silent among few.
    whole = _LOST if lost_logs(case.reading.files) else 1.0
    if missing:
        lacks = "log" if len({file for file, _ in speaking.values()}) > 1 else "line of its own"
        for rank in missing:
            said = (_BESIDE_A_CAUSE if named else 1.0) * (_NOT_COLLECTED if _had_a_file(scene, missing) else 1.0)
            said *= _CUT_SHORT if rank in cut_short else 1.0
            yield Vote(kind="no-log", rank=rank, strength=_share(scene, missing) * said * whole,
                       shared=_share(scene, missing) < 1.0,
                       text=f"has no {lacks}, while {len(speaking)} other ranks have one")  # fmt: skip
    quiet = silent_ranks(scene)
    others = len(_complaining(scene) & set(speaking))
    for rank in quiet:
        file, lines = speaking[rank]
        yield Vote(
            kind="silent",
            rank=rank,
            strength=_share(scene, quiet)
            * (_CUT_SHORT if rank in cut_short else 1.0)
            * (_BESIDE_A_CAUSE if named else 1.0)
            * whole,
            shared=_share(scene, quiet) < 1.0,
            text=f"ends without a word, while {others} other rank{' reports' if others == 1 else 's report'} a failure",
            quotes=(Quote(case.path(file), lines, _last_line(scene, file, lines)),) if lines else (),
        )


def _last_line(scene: Scene, file: int, line: int) -> str:
    """Return what stands in the last line of a rank, where it is that of its file."""
    said = next((one.last_text for one in scene.case.reading.files if one.index == file and one.lines == line), "")
    return f"(last line of its log) {said}".rstrip()


def _had_a_file(scene: Scene, missing: list[int]) -> bool:
    """Return whether ranks without a log must have had one: each has a file of its own, and they had said something before it failed.

    What such a file held is not lost with its process, but with its node, and where it was not collected.
    """
    speaking = _files(scene)
    own = {file for file, _ in speaking.values()}
    if len(own) != len(speaking):
        return False
    failing = {event.hit.file for event in scene.failing}
    said = {one.index for one in scene.case.reading.files if one.lines > 1 and one.who.local_rank is not None} - failing
    nodes = {rank for one in missing for rank in scene.case.people.block(one)}
    lost = len(missing) > 1 and nodes == set(missing)
    return bool(scene.case.steps or said) and not lost


def having_lines(scene: Scene) -> frozenset[int]:
    """Return the ranks that have lines of their own."""
    return frozenset(_files(scene))


def missing_ranks(scene: Scene) -> list[int]:
    """Return the ranks that must be there and have no line of their own, where most have; in an excerpt nobody must have one."""
    speaking, everybody = _files(scene), set(scene.case.people.ranks())
    if _folded(scene) or is_excerpt(scene.case, {file for file, _ in speaking.values()}):
        return []
    missing = sorted(everybody - set(speaking) - set(got_too_much(scene)))
    if len(speaking) < _SEVERAL and scene.case.reading.world_size is None and _may_be_more(scene, everybody):
        return []
    return missing if len(speaking) > 1 and len(missing) <= len(everybody) // 2 else []


def _may_be_more(scene: Scene, everybody: set[int]) -> bool:
    """Return whether there may be ranks beyond the last one that is told of: the one between two that speak is then not the only one left.

    Jobs are mostly of a power of two.
    """
    told = {ending.about.rank for ending in scene.case.endings if ending.about.rank is not None}
    return not told and len(everybody) & (len(everybody) - 1) != 0


def _folded(scene: Scene) -> bool:
    """Return whether what several say alike is shown of one of them alone, and of errors the first."""
    return any(event.id == _FOLDED for event in scene.case.events)


def silent_ranks(scene: Scene) -> list[int]:
    """Return the ranks that have a log and say nothing of a failure, where most others do and one of those tells of others."""
    if _folded(scene):
        return []
    speaking = _files(scene)
    complaining = _complaining(scene) & set(speaking)
    quiet = sorted(set(speaking) - complaining)
    # Those of other nodes of which no rank is known are as silent: whoever raises something says which rank it is.
    elsewhere = len(scene.case.people.unplaced())
    few = len(quiet) + elsewhere <= (len(speaking) + elsewhere) // 2
    return quiet if _accusing(scene) & complaining and few else []


def _accusing(scene: Scene) -> set[int]:
    """Return the ranks that fail for want of others, as far as their lines tell: not those that name a cause of their own."""
    own = {event.rank for event in scene.roots() if event.specific and not tells_of_others(event)}
    return {
        event.rank
        for event in scene.failing
        if event.rank is not None and event.rank not in own and (event.raised is None or event.raised.exception)
    }


def _complaining(scene: Scene) -> set[int]:
    """Return the ranks that tell of a failure themselves; what an agent says of them is not their word."""
    return set(got_too_much(scene)) | {
        event.rank
        for event in scene.failing
        if event.rank is not None and event.role in ("root", "cascade") and not event.id.startswith(("exit.", "elastic.", "flight."))
        and (event.hit.about is None or event.hit.about.rank == event.hit.who.rank)
    }  # fmt: skip


def _share(scene: Scene, silent: list[int]) -> float:
    """Return how much the silence of one of several says: all ranks of a node are as silent as one rank."""
    if len(silent) > 1 and set(scene.case.people.block(silent[0])) == set(silent):
        return 1.0
    return float(1.0 / len(silent))


def _files(scene: Scene) -> dict[int, tuple[int, int]]:
    """Return the ranks that have lines of their own, with a file and the number of the last line."""
    if scene.case.speaking is not None:
        return scene.case.speaking
    found: dict[int, tuple[int, int]] = {}
    people = scene.case.people
    for one in scene.case.reading.files:
        rank = people.rank_of(one.who, one.index)  # also of one that is known by what its file is called alone
        if one.kind == "text" and rank is not None and one.lines:
            found[rank] = (one.index, one.lines)
    for spoke in scene.case.reading.spoke:
        rank = people.rank_of(spoke.who, spoke.file)
        if rank is not None:
            found.setdefault(rank, (spoke.file, spoke.last_line or 0))
    told = [(hit.who, hit.file, hit.line) for hit in scene.case.reading.hits]
    told += [(step.who, step.file, step.line) for step in scene.case.steps]
    for who, file, line in told:
        rank = people.placed(who, file)[0]
        if rank is not None:
            found.setdefault(rank, (file, line))
    scene.case.speaking = found
    return found
