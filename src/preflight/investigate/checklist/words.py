"""A person's word for an item: kept in a file, with evidence and an end."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping

import msgspec

from preflight.errors import InputError, UsageError, nearest
from preflight.vocabulary.checklist import Attestation, Checklist, PersonCheck

SCHEMA = "preflight.attestations/1"
_DAY = 86400.0


class _Kept(msgspec.Struct, frozen=True):
    schema: str
    checklist: str
    attestations: tuple[Attestation, ...] = ()


def read_words(path: str) -> dict[str, Attestation]:
    """Return what people vouched for, by item, the newest of each; nothing where there is no file.

    Raises:
        InputError: The file is damaged.
    """
    try:
        with open(path, "rb") as file:
            kept = msgspec.json.decode(file.read(), type=_Kept)
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    return {one.item: one for one in sorted(kept.attestations, key=lambda one: one.at)}


def attest(checklist: Checklist, item: str, by: str, evidence: str, now: float | None = None) -> Attestation:
    """Return a person's word for an item; evidence that is a file is kept as its hash.

    Raises:
        UsageError: There is no such item, it is checked and not vouched for, or evidence or name are empty.
    """
    wanted = next((one for one in checklist.items if one.id == item), None)
    if wanted is None:
        near = nearest(item, [one.id for one in checklist.items])
        raise UsageError(f"{checklist.id} has no item {item!r}", f"did you mean {near}?" if near else None)
    if not isinstance(wanted.check, PersonCheck) and not wanted.person_may:
        raise UsageError(
            f"{item} is checked, and nobody can vouch for it", f"preflight investigate checklist {checklist.id}"
        )
    if not by.strip() or not evidence.strip():
        raise UsageError("a word needs a name and evidence", "--by NAME --evidence TEXT_OR_FILE")
    digest = None
    if os.path.isfile(evidence):
        with open(evidence, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
    moment = time.time() if now is None else now
    return Attestation(
        item=item,
        by=by.strip(),
        at=moment,
        until=moment + wanted.valid_days * _DAY,
        evidence=evidence.strip(),
        digest=digest,
    )


def text_of(checklist: str, words: Mapping[str, Attestation]) -> bytes:
    """Return the file of these words."""
    kept = _Kept(SCHEMA, checklist, tuple(sorted(words.values(), key=lambda one: (one.item, one.at))))
    return msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n"


__all__ = ["attest", "read_words", "text_of"]
