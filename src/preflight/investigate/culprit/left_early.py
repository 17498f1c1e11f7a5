"""Who had come to its end while the others were left waiting: it had less to do than they, or went away."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from preflight.investigate.culprit.vote import Scene, Vote
from preflight.vocabulary.incident import Quote

_LAST_WORDS = re.compile(
    r"\b(?:done|finished|completed?|exit(?:s|ing|ed)|bye|goodbye|shut(?:s|ting)? down|leav(?:es|ing)|exhausted|over|drained"
    r"|no (?:more|further) \w+|nothing (?:left|more|to do)|stopp(?:ed|ing)|ran out of)\b",
    re.IGNORECASE,
)
"""With what a program says that it has come to its end, where that is the last line of a rank."""
FEW = 3
"""One of so many may have had more to do than all others."""
_TROUBLE = re.compile(r"error|exception|fail|traceback|signal|killed|abort", re.IGNORECASE)


def votes(scene: Scene) -> Iterator[Vote]:
    """Vote for the few ranks that tell of their end, or ended well, where the others fail only for want of somebody."""
    done = _done(scene) or said_its_end(scene)
    tell = {event.rank for event in scene.failing if event.role == "cascade" and event.rank is not None}
    # Who waits in vain at its end is told from those that are still at work, though it alone could say so before all were stopped.
    left = tell - set(done) or (
        set(scene.case.people.ranks()) - set(done) if scene.waited and tell <= set(done) else set()
    )
    caused = any(event.rank is not None and not event.id.startswith("exit.") for event in scene.roots())
    if not done or not left or caused:
        return
    if len(done) > len(left):
        yield from _still_there(scene, done, left)
        return
    for rank, (text, quotes) in done.items():
        yield Vote(kind="left-early", rank=rank, strength=1.0 / len(done), text=text, quotes=quotes)


def _still_there(scene: Scene, done: Collection[int], left: Collection[int]) -> Iterator[Vote]:
    """Vote for the few ranks that still called the others when all of these had come to their end: they had more to do."""
    everybody = set(scene.case.people.ranks()) == {*done, *left}
    told = {event.rank: event for event in scene.failing if event.role == "cascade" and event.rank in left}
    if not everybody or len(left) * FEW > len(done) or set(left) != set(told):
        return
    for rank, event in told.items():
        yield Vote(kind="had-more-to-do", rank=rank, strength=1.0 / len(left), quotes=(scene.case.quote(event.hit),),
                   text=f"still waited for others when {len(done)} of them had come to their end")  # fmt: skip


def _done(scene: Scene) -> dict[int, tuple[str, tuple[Quote, ...]]]:
    case = scene.case
    found: dict[int, tuple[str, tuple[Quote, ...]]] = {}
    for event in case.events:
        if event.signature is not None and event.signature.marks == "end" and event.rank is not None:
            text = f"had come to its end, while others were still at work: {event.title}"
            found.setdefault(event.rank, (text, (case.quote(event.hit),)))
    for ending in case.endings:
        rank = case.people.rank_of(ending.about, ending.file)
        if rank is not None and ending.code == 0:
            found.setdefault(rank, ("ended well, while others failed", ()))
    return found


def said_its_end(scene: Scene) -> dict[int, tuple[str, tuple[Quote, ...]]]:
    """Return the ranks whose last line says that they have come to an end, where others waited for somebody in vain.

    Where the others lost their connection instead, all of them have to tell of it, and behind those words.
    """
    case = scene.case
    told = {event.rank: event for event in reversed(scene.failing) if event.role == "cascade"}
    stepped = {(one.file, one.line) for one in case.steps}
    last = [(case.people.rank_of(one.who, one.file), one.file, one.last_line or 0, one.last_text, one.last_time)
            for one in case.reading.spoke]  # fmt: skip
    last += [
        (case.people.rank_of(one.who, one.index), one.index, one.lines, one.last_text, one.last_time)
        for one in case.reading.files
        if one.who.rank is not None or one.who.local_rank is not None
    ]
    found: dict[int, tuple[str, tuple[Quote, ...]]] = {}
    times: list[float | None] = []
    for rank, file, line, text, time in last:
        if rank is None or rank in told or (file, line) in stepped or _TROUBLE.search(text):
            continue
        if _LAST_WORDS.search(text) and rank not in found:
            said = f"its last words are those of one that has come to its end: {text}"
            found[rank] = (said, (Quote(case.path(file), line, text),))
            times.append(time)
    return found if scene.waited or _all_cut_off(scene, set(found), times) else {}


def _all_cut_off(scene: Scene, done: set[int], times: Collection[float | None]) -> bool:
    """Return whether each of the other ranks lost its connection after some had said their last words, as far as clocks tell."""
    lost = [event for event in scene.failing if event.role == "cascade" and event.category == "network"]
    spoken = max((time for time in times if time is not None), default=None)
    if spoken is None or None in times or not lost:
        return False
    behind = all(event.time is not None and event.time + event.error >= spoken for event in lost)
    return behind and {event.rank for event in lost} - {None} == set(scene.case.people.ranks()) - done
