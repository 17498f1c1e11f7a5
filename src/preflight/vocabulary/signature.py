"""Failure signatures: what a line of a log means, and what it does not."""

from __future__ import annotations

from typing import Literal

import msgspec

Category = Literal[
    "oom",
    "network",
    "numerical",
    "hardware",
    "usercode",
    "data",
    "environment",
    "checkpoint",
    "preemption",
    "compile",
    "other",
    "none",
    "cannot-tell",
]
Role = Literal["root", "cascade", "confirmation", "teardown", "progress", "recovered", "benign"]
FieldKind = Literal["int", "float", "str", "bytes", "ranks"]
Marks = Literal["start", "resume", "restart", "end", "checkpoint", "barrier"]
RootWhen = Literal["ranks-given-twice"]


class Cause(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What may lie behind a signature.

    Attributes:
        id: A short name, stable, in kebab case; the same cause has the same name in every signature.
        title: The cause in one line.
        prior: How often it is this one when the signature is seen alone, 0 to 1; those of a signature add up to 1 at most.
        category: The category of the cause, where it is another than that of the line.
        discriminated_by: What would tell it from the other causes: observations by name.
    """

    id: str
    title: str
    prior: float
    category: Category | None = None
    discriminated_by: tuple[str, ...] = ()


class Signature(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    r"""A text that programs print, and what it stands for.

    Attributes:
        id: Dotted name, ``family.thing``, the family first: ``oom.cuda-allocation``.
        title: What it says, in one line.
        category: What the line looks like; the root cause may be of another category.
        role: ``root``: names a cause on the rank that printed it; ``cascade``: a pointer to somebody else, never a cause;
            ``confirmation``: kernel, driver or scheduler confirm it from outside; ``teardown``: part of an end that was
            decided elsewhere; ``progress``: the training goes on; ``recovered``: went wrong and was mended; ``benign``.
        literals: A line is looked at when it holds one of these, case and all.
        regex: RE2; has to be found in the line. None: the literal is enough.
        after: So many lines that follow belong to it; ``regex`` is looked for in the line alone, ``detail`` in all of them.
        detail: RE2 for further fields in the lines that follow.
        fields: Names of groups in ``regex`` and ``detail``, and what they are. ``bytes``: a number with a group
            ``<name>_unit`` beside it; ``ranks``: a list of ranks.
        predicate: Name of a function that decides where arithmetic is needed (``preflight.source.logs.predicates``).
        shift: Field in milliseconds by which the trouble began earlier than the line was printed.
        points_to: Field that names the ranks (or, ``peer``, the address, and ``node``, the node) that the line accuses.
        subject: Field that names the rank, local rank or process that the line is about, when another program prints it.
        announces: Field with the global rank that a process says it was given.
        root_when: What makes a root of it, where the line alone is only a word of caution. ``ranks-given-twice``: two tasks, or
            two nodes, announce the same rank.
        grace: Seconds that go on as if nothing were after what it announces, at the most: of a notice of a provider or a
            scheduler. None: what schedulers leave as a rule.
        causes: What may be behind it.
        next: What to do or look at next, the cheapest first; a sentence each.
        remedies: Names of remedies.
        caught_by: Rules of check, relations of monitor or checklist items that would have told it before.
        supersedes: Signatures that say no more when this one is seen on the same rank; of a ``benign`` one, those right below it.
        sources: Where the text stands: a program and version with its file, or an issue thread.
        match: Examples that it takes, as printed; several lines where ``after`` is used.
        no_match: Lines close to it that it must not take.
        marks: A moment of the run that the line marks: a process starts, a state is loaded to go on from, an agent starts its
            workers again, the training has ended as it should, a checkpoint is committed, a barrier of all ranks is passed.
        since: Version of the catalogue.
        page: More for the person who meets it.
    """

    id: str
    title: str
    category: Category
    role: Role
    literals: tuple[str, ...]
    regex: str | None = None
    after: int = 0
    detail: str | None = None
    fields: dict[str, FieldKind] = {}
    predicate: str | None = None
    shift: str | None = None
    points_to: str | None = None
    subject: str | None = None
    announces: str | None = None
    root_when: RootWhen | None = None
    grace: float | None = None
    causes: tuple[Cause, ...] = ()
    next: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()
    caught_by: tuple[str, ...] = ()
    supersedes: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    match: tuple[str, ...]
    no_match: tuple[str, ...]
    marks: Marks | None = None
    since: int = 1
    page: str = ""
