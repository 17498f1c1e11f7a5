"""Ranks that were given twice: a launcher that does not see the scheduler's processes begins at nought on every node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from preflight.vocabulary.log import Hit
from preflight.vocabulary.signature import Signature


def given_twice(hits: Iterable[Hit], signatures: Mapping[str, Signature]) -> bool:
    """Return whether two tasks, or two nodes, announce the same rank."""
    writers: dict[int, int | str] = {}
    for hit in hits:
        signature = signatures.get(hit.signature)
        rank = hit.fields.get(signature.announces) if signature is not None and signature.announces else None
        writer = hit.who.rank if hit.who.rank is not None else hit.who.node
        if isinstance(rank, int) and writer is not None and writers.setdefault(rank, writer) != writer:
            return True
    return False
