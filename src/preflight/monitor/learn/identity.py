"""The id of an invariant: the same statement has the same id, wherever and whenever it was learnt."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from preflight.vocabulary.invariant import Clause

_LENGTH = 8


def identity(relation: str, subject: Mapping[str, Any], precondition: tuple[tuple[Clause, ...], ...]) -> str:
    """The relation's name; for other than its general statement with a short hash of subject and precondition."""
    if not subject and not precondition:
        return relation
    said = msgspec.json.Encoder(order="deterministic").encode([relation, subject, precondition])
    return f"{relation}-{hashlib.blake2s(said, digest_size=_LENGTH // 2).hexdigest()}"
