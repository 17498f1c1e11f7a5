"""Findings: what a rule says, where, why it believes it, and what to change."""

from __future__ import annotations

from typing import Literal

import msgspec

Severity = Literal["error", "warning", "info"]
Confidence = Literal["certain", "likely", "possible"]
Persona = Literal["regular", "pedantic", "audit"]
EvidenceSource = Literal["measured", "published", "derived"]
Scalar = int | float | str | bool | None

SEVERITY_ORDER: dict[str, int] = {"error": 0, "warning": 1, "info": 2}
CONFIDENCE_ORDER: dict[str, int] = {"certain": 0, "likely": 1, "possible": 2}


class Location(msgspec.Struct, frozen=True, omit_defaults=True):
    """A place: in a file (lines from 1, columns from 1) or in a run (rank, node, step, time)."""

    path: str | None = None
    line: int | None = None
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None
    cell: int | None = None
    rank: int | None = None
    node: str | None = None
    step: int | None = None
    time: float | None = None


class Evidence(msgspec.Struct, frozen=True):
    """One thing that was seen, with its unit, where it comes from and the arithmetic in one line."""

    what: str
    value: Scalar = None
    unit: str | None = None
    source: EvidenceSource = "derived"
    arithmetic: str | None = None


class Related(msgspec.Struct, frozen=True):
    """Another place that belongs to a finding, and what is there."""

    location: Location
    message: str


class Edit(msgspec.Struct, frozen=True):
    """Replace a span of text. Lines and columns count from 1; columns count characters; the end is exclusive."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str


class Fix(msgspec.Struct, frozen=True):
    """What to change.

    Attributes:
        title: The change in one line, in the imperative.
        safe: True when the edits cannot change what the training computes, apart from the intended effect.
        edits: Text edits; empty when a person has to do it.
        instruction: What to do, when no edits can be given.
        expected: What the change is expected to do (metric before and after).
    """

    title: str
    safe: bool = False
    edits: tuple[Edit, ...] = ()
    instruction: str | None = None
    expected: str | None = None


class Finding(msgspec.Struct, frozen=True):
    """One thing that a rule found."""

    rule: str
    code: str
    severity: Severity
    confidence: Confidence
    message: str
    location: Location
    related: tuple[Related, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    fix: Fix | None = None

    @property
    def decides(self) -> bool:
        """Whether this finding alone makes the verdict NO-GO."""
        return self.severity == "error" and self.confidence != "possible"


def sort_key(finding: Finding) -> tuple[int, int, str, int, int, str]:
    """Order findings by severity, confidence, place and code, so that output is deterministic."""
    at = finding.location
    return (
        SEVERITY_ORDER[finding.severity],
        CONFIDENCE_ORDER[finding.confidence],
        at.path or "",
        at.line or 0,
        at.column or 0,
        finding.code,
    )
