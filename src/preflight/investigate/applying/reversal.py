"""How an applied change is taken back: a record beside the file, and the way back even where the file went on changing."""

from __future__ import annotations

import difflib
import json
import os

import msgspec

from preflight.errors import InputError
from preflight.investigate.applying.proposal import Proposal, patch

SCHEMA = "preflight.reversal/1"
FOLDER = os.path.join(".preflight", "fixes")


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """A change that was applied; ``reversal`` is the way back as a patch."""

    schema: str
    remedy: str
    path: str
    before: str
    after: str
    made: tuple[str, ...]
    reversal: str


def record_path(path: str, remedy: str) -> str:
    """Where the record of a change lies: beside the file."""
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(folder, FOLDER, f"{name}.{remedy}.json")


def record_of(proposal: Proposal) -> str:
    """Return the record of a change as it is written."""
    applied = Applied(
        schema=SCHEMA, remedy=proposal.remedy, path=os.path.basename(proposal.path), before=proposal.before,
        after=proposal.after, made=proposal.made,
        reversal=patch(os.path.basename(proposal.path), proposal.after, proposal.before),
    )  # fmt: skip
    return json.dumps(msgspec.to_builtins(applied), indent=1, ensure_ascii=False) + "\n"


def read_record(path: str, remedy: str) -> Applied:
    """Return the record of a change.

    Raises:
        InputError: There is none, or it is damaged.
    """
    place = record_path(path, remedy)
    try:
        with open(place, "rb") as file:
            return msgspec.json.decode(file.read(), type=Applied)
    except FileNotFoundError:
        raise InputError(f"{remedy} was not applied to {path}", f"its record would be {place}") from None
    except (OSError, msgspec.MsgspecError) as error:
        raise InputError(f"{place}: cannot be read: {error}") from None


def taken_back(applied: Applied, now: str) -> str:
    """Return the text without the change; what else was changed since stays.

    Raises:
        InputError: The very lines that the change made were changed since.
    """
    if now == applied.after:
        return applied.before
    made, was, current = (text.splitlines(keepends=True) for text in (applied.after, applied.before, now))
    kept = difflib.SequenceMatcher(None, made, current, autojunk=False).get_matching_blocks()
    result = list(current)
    for tag, first, last, low, high in reversed(difflib.SequenceMatcher(None, made, was, autojunk=False).get_opcodes()):
        if tag == "equal":
            continue
        for block in kept:
            if block.a <= first and last <= block.a + block.size and (block.size or len(made) == 0):
                at = first - block.a + block.b
                result[at : at + last - first] = was[low:high]
                break
        else:
            raise InputError(
                f"{applied.path}: the lines that {applied.remedy} changed were changed again",
                "take it back by hand:\n" + applied.reversal,
            )
    return "".join(result)


__all__ = ["Applied", "read_record", "record_of", "record_path", "taken_back"]
