"""Ranks that were given twice: a launcher that does not see the scheduler's processes begins at nought on every node."""

from __future__ import annotations

from collections.abc import Iterable

from preflight.vocabulary.log import Hit

CAUTIONS = ("environment.processes-not-by-scheduler",)
"""What warns of it; that it has happened is seen in what the processes announce."""
_ANNOUNCED = "benign.rank-announced"


def given_twice(hits: Iterable[Hit]) -> bool:
    """Return whether two tasks, or two nodes, announce the same rank."""
    writers: dict[int, int | str] = {}
    for hit in hits:
        rank = hit.fields.get("announced") if hit.signature == _ANNOUNCED else None
        writer = hit.who.rank if hit.who.rank is not None else hit.who.node
        if isinstance(rank, int) and writer is not None and writers.setdefault(rank, writer) != writer:
            return True
    return False
