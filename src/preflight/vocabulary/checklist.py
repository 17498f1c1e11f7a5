"""Checklists: what has to be so before a run, how it is checked, by whom, and for how long a word about it counts."""

from __future__ import annotations

from typing import Literal

import msgspec

from preflight.vocabulary.finding import Scalar

Standing = Literal["pass", "fail", "warn", "unknown", "not-run"]


class FunctionCheck(msgspec.Struct, frozen=True, tag_field="by", tag="check", forbid_unknown_fields=True):
    """A check of this machine: a file of ``investigate/checklist/checks``; ``{name}`` in an option is a setting."""

    name: str
    options: dict[str, Scalar] = {}


class CommandCheck(msgspec.Struct, frozen=True, tag_field="by", tag="command", forbid_unknown_fields=True):
    """A command that has to end with a code, and whose output has to hold an expression (or must not)."""

    run: tuple[str, ...]
    code: int | None = 0
    expects: str | None = None
    refuses: str | None = None
    seconds: float = 60.0


class RulesCheck(msgspec.Struct, frozen=True, tag_field="by", tag="rules", forbid_unknown_fields=True):
    """Rules of ``preflight check`` that must find nothing in the script."""

    rules: tuple[str, ...]


class FactCheck(msgspec.Struct, frozen=True, tag_field="by", tag="fact", forbid_unknown_fields=True):
    """A fact that ``preflight check`` reads in the script: present, equal, or within limits.

    Attributes:
        name: The fact: ``gradient_clipping``. equals, at_least, at_most: What it has to be.
        only_if: A fact and its values, without which the item does not apply: ``{"precision": ["fp16"]}``.
    """

    name: str
    equals: Scalar = None
    at_least: float | None = None
    at_most: float | None = None
    only_if: dict[str, tuple[Scalar, ...]] = {}


class PersonCheck(msgspec.Struct, frozen=True, tag_field="by", tag="person", forbid_unknown_fields=True):
    """What somebody has to have done; ``evidence``: what they show for it."""

    evidence: str


Check = FunctionCheck | CommandCheck | RulesCheck | FactCheck | PersonCheck


class Item(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One thing that has to be so.

    Attributes:
        id: Its name in the list. title: What, in one line. why: What happens without it.
        area: ``memory``, ``network``, ``data``, ``checkpoint``, ``numerical``, ``environment``, ``operation``.
        critical: Without a pass the run must not start.
        check: How it is checked.
        person_may: Somebody may vouch for it where the check cannot be run.
        owner: Who sees to it. valid_days: For so long a person's word counts.
        remedies: What to do where it fails. prevents: Signatures and causes that it keeps away.
    """

    id: str
    title: str
    why: str
    area: str
    critical: bool = False
    check: Check
    person_may: bool = False
    owner: str = ""
    valid_days: float = 30.0
    remedies: tuple[str, ...] = ()
    prevents: tuple[str, ...] = ()


class Setting(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Something that the list needs to know: what it is, and what is taken where it is not said."""

    what: str
    default: Scalar = None


class Checklist(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A list of items."""

    id: str
    title: str
    items: tuple[Item, ...]
    settings: dict[str, Setting] = {}
    sources: tuple[str, ...]


class Attestation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A person's word: who, when (seconds since 1970), what for, until when; ``digest``: of a file that was shown."""

    item: str
    by: str
    at: float
    until: float
    evidence: str
    digest: str | None = None


class Result(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How an item stands, and what says so."""

    item: str
    standing: Standing
    text: str
    critical: bool = False
    owner: str = ""
    attested: Attestation | None = None
    remedies: tuple[str, ...] = ()
