"""The report: what every command answers, in one shape."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from preflight.vocabulary.association import Associations
from preflight.vocabulary.comparison import Comparison
from preflight.vocabulary.fact import Fact
from preflight.vocabulary.finding import SEVERITY_ORDER, Finding
from preflight.vocabulary.incident import Incident
from preflight.vocabulary.invariant import Invariant, Violation
from preflight.vocabulary.live import Difference, Measurement, RankPulse
from preflight.vocabulary.measured import Measured
from preflight.vocabulary.memory import MemoryEstimate
from preflight.vocabulary.opinion import Opinion
from preflight.vocabulary.plan import Plan
from preflight.vocabulary.profile import Profile
from preflight.vocabulary.quantity import format_bytes
from preflight.vocabulary.roofline import Roofline
from preflight.vocabulary.tree import Walk
from preflight.vocabulary.verification import Verification
from preflight.vocabulary.watched import Watched

Verdict = Literal["GO", "NO-GO", "UNKNOWN"]
SCHEMA = "preflight.report/1"
VERDICT_ORDER: dict[str, int] = {"NO-GO": 0, "UNKNOWN": 1, "GO": 2}


class Tool(msgspec.Struct, frozen=True):
    """Which program and version made the report."""

    name: str
    version: str


class EfficiencyPart(msgspec.Struct, frozen=True):
    """One part of the efficiency score: its own score (0 to 100), its weight and the reason."""

    name: str
    score: float
    weight: float
    reason: str


class Efficiency(msgspec.Struct, frozen=True):
    """The efficiency score, 0 to 100: the weighted mean of its parts, and its band in words."""

    score: float
    band: str
    parts: tuple[EfficiencyPart, ...] = ()


class Recommendation(msgspec.Struct, frozen=True):
    """A change worth making: what exactly, what it is expected to do, and what it costs."""

    priority: Literal["critical", "high", "medium", "low"]
    change: str
    effect: str
    side_effect: str | None = None


class NotEvaluated(msgspec.Struct, frozen=True):
    """A rule that could not be evaluated, and the fact that it lacked."""

    rule: str
    code: str
    reason: str


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """A figure as one report of a run tells it: an estimate with its interval, or what was measured."""

    command: str
    value: float
    low: float | None = None
    high: float | None = None
    measured: bool = False


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A figure that several reports of a run tell: foretold by some, seen by others.

    Attributes:
        name: What it is: ``peak (allocated)``.
        unit: ``bytes`` or ``s``.
        told: By whom, in the order of the run's life.
    """

    name: str
    unit: str
    told: tuple[Told, ...]


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """A report that a command left in the folder of a run.

    Attributes:
        number: Its place in the run's life, from 1.
        time: When it was made, seconds since 1970 (UTC).
        words: The command line.
        latest: Whether it is the newest of its kind; a rehearsal never is.
        report: The report.
    """

    number: int
    time: float
    words: tuple[str, ...]
    report: Report
    latest: bool = False


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """What commands told of one run, from the first check to the last investigation."""

    folder: str
    stages: tuple[Stage, ...] = ()
    figures: tuple[Figure, ...] = ()


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a command found. Sections that a command does not fill are absent from the JSON."""

    schema: str
    command: str
    tool: Tool
    verdict: Verdict
    inputs: dict[str, Any] = {}
    findings: tuple[Finding, ...] = ()
    facts: dict[str, Fact] = {}
    memory: MemoryEstimate | None = None
    profile: Profile | None = None
    measured: Measured | None = None
    step: dict[str, Any] | None = None
    roofline: Roofline | None = None
    efficiency: Efficiency | None = None
    recommendations: tuple[Recommendation, ...] = ()
    plan: Plan | None = None
    violations: tuple[Violation, ...] = ()
    invariants: tuple[Invariant, ...] = ()
    watched: Watched | None = None
    incident: Incident | None = None
    walk: Walk | None = None
    opinion: Opinion | None = None
    verification: Verification | None = None
    associations: Associations | None = None
    comparison: Comparison | None = None
    life: Life | None = None
    measurements: tuple[Measurement, ...] = ()
    pulses: tuple[RankPulse, ...] = ()
    differences: tuple[Difference, ...] = ()
    not_evaluated: tuple[NotEvaluated, ...] = ()
    scripts: tuple[Report, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def rehearsed(self) -> tuple[str, ...]:
        """The faults that were made on purpose, to see what would be said of them; empty for what really was."""
        given = self.inputs.get("injected")
        return tuple(map(str, given)) if isinstance(given, (list, tuple)) else ()

    @property
    def alarms(self) -> tuple[Violation, ...]:
        """The roots of the violations, one for each group in their order; each as severe as the worst of its group."""
        roots: dict[int, Violation] = {}
        for one in self.violations:
            root = roots.setdefault(one.group, one)
            if SEVERITY_ORDER[one.severity] < SEVERITY_ORDER[root.severity]:
                roots[one.group] = msgspec.structs.replace(root, severity=one.severity, confidence=one.confidence)
        return tuple(roots.values())

    @property
    def told(self) -> tuple[Finding, ...]:
        """Everything that is told as one finding: the findings, and each group of violations by its root."""
        return (*self.findings, *self.alarms) if self.violations else self.findings

    @property
    def critical_errors(self) -> tuple[str, ...]:
        """The errors, each in one line with its place; one that is only possible does not make the verdict NO-GO."""
        return tuple(_line(finding) for finding in self.told if finding.severity == "error")

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings, each in one line with its place."""
        return tuple(_line(finding) for finding in self.told if finding.severity == "warning")

    @property
    def breakdown(self) -> dict[str, str]:
        """The memory at the peak by component, as shown to a person; empty where it is not known."""
        if self.memory is None or self.memory.breakdown is None:
            return {}
        parts = self.memory.breakdown
        return {name: format_bytes(getattr(parts, name)) for name in parts.__struct_fields__}


def _line(finding: Finding) -> str:
    at = finding.location
    place = f" ({at.path}:{at.line})" if at.path is not None and at.line is not None else ""
    return f"{finding.message}{place}"
