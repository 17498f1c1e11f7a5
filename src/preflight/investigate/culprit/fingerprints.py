"""Ranks that made different calls, by what all of them say of each other: whoever is alone with its call is the suspect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from preflight.investigate.culprit.vote import Scene, Vote
from preflight.vocabulary.incident import Quote

MOST = 4096
"""So many ranks are counted as of one mind at most."""
NOTHING = "0"
"""What a rank has whose model was not built, or whose numbers were lost on their way to the others."""
OF_NOTHING = 0.5


def votes(scene: Scene) -> Iterator[Vote]:
    """Vote for the minority at a mismatch, and against those who made the call of most."""
    said: dict[int, str] = {}
    quotes: dict[int, Quote] = {}
    for event in scene.failing:
        fields, quote = event.hit.fields, scene.case.quote(event.hit)
        for rank, call in _agreeing(fields):
            said.setdefault(rank, call)
            quotes.setdefault(rank, quote)
        for writer, call in (("printer", "mine"), ("other", "theirs")):
            who, what = fields.get(writer), fields.get(call)
            if isinstance(who, int) and isinstance(what, str):
                said.setdefault(who, what)
                quotes.setdefault(who, quote)
    said |= _as_the_first(scene, quotes)
    if len(set(said.values())) < 2:
        return
    counts: dict[str, int] = {}
    for what in said.values():
        counts[what] = counts.get(what, 0) + 1
    most = max(counts.values())
    if len(said) == 2 and NOTHING in counts and set(said) == set(scene.case.people.ranks()):
        alone = next(rank for rank, what in said.items() if what == NOTHING)
        yield Vote(kind="call-of-its-own", rank=alone, strength=OF_NOTHING, text="has nothing where the other has something",
                   quotes=(quotes[alone],))  # fmt: skip
    for rank, what in said.items():
        if counts[what] == most:
            if list(counts.values()).count(most) == 1:
                yield Vote(kind="call-of-most", rank=rank, text=f"made the call that {most} ranks made")
            continue
        yield Vote(kind="call-of-its-own", rank=rank, strength=1.0 / counts[what] ** 0.5,
                   text=f"made another call than {most} ranks: {what}", quotes=(quotes[rank],))  # fmt: skip


def _agreeing(fields: Mapping[str, object]) -> Iterator[tuple[int, str]]:
    """Yield what those called who stand before the one that is named: a rank compares its call with theirs in their order.

    It names the first that differs, so that all before that one made the call of the rank that complains.
    """
    printer, other, mine = fields.get("printer"), fields.get("other"), fields.get("mine")
    if not (isinstance(printer, int) and isinstance(other, int) and isinstance(mine, str)):
        return
    for rank in range(min(other, MOST)):
        if rank != printer:
            yield rank, mine


def _as_the_first(scene: Scene, quotes: dict[int, Quote]) -> dict[int, str]:
    """Return what each rank has, where each compares itself with the first one alone, and only who differs says so.

    Ranks that do not complain have what the first one has (``verify_params_across_processes`` of torch).
    """
    differing: dict[int, str] = {}
    for event in scene.failing:
        rank = event.hit.fields.get("differs")
        if isinstance(rank, int) and rank:
            differing.setdefault(rank, str(event.hit.fields.get("sizes") or "something else"))
            quotes.setdefault(rank, scene.case.quote(event.hit))
    if not differing:
        return {}
    alike = {0, *scene.case.people.ranks()} - set(differing)
    for rank in alike:
        quotes.setdefault(rank, quotes[min(differing)])
    return {**dict.fromkeys(alike, "what rank 0 has"), **differing}
