"""Invariants: what must hold in a training run, where it was learnt, and what was found where it does not hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from preflight.vocabulary.finding import Finding, Severity
from preflight.vocabulary.signature import Category

Comparison = Literal["is", "is not", "one of", "at least", "at most"]
Origin = Literal["library", "learnt", "person", "prediction"]


class Clause(msgspec.Struct, frozen=True, omit_defaults=True):
    """One condition: a field of an example's context and what it must be."""

    field: str
    is_: Comparison = msgspec.field(default="is", name="is")
    value: Any = None

    def holds(self, context: Mapping[str, Any]) -> bool:
        """Whether a context fulfils the condition; a field that is not there fulfils none but ``is not``."""
        if self.field not in context:
            return self.is_ == "is not"
        seen = context[self.field]
        if self.is_ == "is":
            return bool(seen == self.value)
        if self.is_ == "is not":
            return bool(seen != self.value)
        if self.is_ == "one of":
            return seen in self.value
        if not isinstance(seen, (int, float)):
            return False
        return bool(seen >= self.value if self.is_ == "at least" else seen <= self.value)


class Provenance(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where an invariant comes from.

    Attributes:
        origin: The shipped library, learnt from runs, written by a person, or what a dry run saw.
        runs: Names of the programs or trace folders it was learnt from.
        torch: Versions of PyTorch of these runs.
        note: Anything a reader should know.
    """

    origin: Origin = "learnt"
    runs: tuple[str, ...] = ()
    torch: tuple[str, ...] = ()
    note: str | None = None


class Invariant(msgspec.Struct, frozen=True, omit_defaults=True):
    """What must hold.

    Attributes:
        id: A short stable name, made of the relation, the subject and the precondition.
        relation: The relation's name.
        subject: What the relation is said of: the relation's own keys and values; empty for everything it speaks of.
        precondition: Alternatives of conditions; one alternative whose clauses all hold is enough. Empty: always.
        text: The statement as a sentence.
        support: In how many examples it held.
        confidence: The share of examples in which it held (1.0 unless exceptions were allowed).
        source: Where it comes from.
        severity: What a violation means for the run.
        pinned: A person wants it kept, whatever later runs say.
        suppressed: Why a person does not want to hear of it, or None.
    """

    id: str
    relation: str
    subject: dict[str, Any] = {}
    precondition: tuple[tuple[Clause, ...], ...] = ()
    text: str = ""
    support: int = 0
    confidence: float = 1.0
    source: Provenance = Provenance()
    severity: Severity = "error"
    pinned: bool = False
    suppressed: str | None = None

    def applies(self, context: Mapping[str, Any]) -> bool:
        """Whether the precondition holds in a context."""
        if not self.precondition:
            return True
        return any(all(clause.holds(context) for clause in clauses) for clauses in self.precondition)


class Violation(Finding, frozen=True, kw_only=True):
    """An invariant that did not hold: a finding with what was expected and seen, since when, on which ranks.

    Attributes:
        invariant: Its id.
        relation: Its relation.
        category: What it is a failure of, in the words of an investigation; None in reports of older versions.
        first_step: The optimizer step in which it was first seen, from 0.
        first_iteration: The pass through the training loop in which it was first seen, from 0.
        last_step: The optimizer step in which it was last seen.
        count: How many examples broke it.
        ranks: The ranks on which it was seen.
        variables: Names of the parameters, modules or calls concerned.
        expected: What should have been seen.
        seen: What was seen.
        cause: What usually causes it.
        group: The number of the group of violations that belong to one cause; the first of a group is its root.
        neighbourhood: The calls around it, in order.
    """

    invariant: str = ""
    relation: str = ""
    category: Category | None = None
    first_step: int = 0
    first_iteration: int = 0
    last_step: int = 0
    count: int = 1
    ranks: tuple[int, ...] = ()
    variables: tuple[str, ...] = ()
    expected: Any = None
    seen: Any = None
    cause: str | None = None
    group: int = 0
    neighbourhood: tuple[str, ...] = ()


def encoded(invariants: Iterable[Invariant]) -> bytes:
    """Return the content of a file of invariants: one a line, in an order that follows from what they say."""
    encoder = msgspec.json.Encoder(order="deterministic")
    return b"".join(encoder.encode(one) + b"\n" for one in sorted(invariants, key=sort_key))


def sort_key(invariant: Invariant) -> tuple[str, str, str]:
    """The order of a file: by relation, subject and id, so that files can be compared by lines."""
    return invariant.relation, msgspec.json.encode(invariant.subject, order="deterministic").decode(), invariant.id
