"""What a live tool found, as a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from preflight.vocabulary.fact import Fact
from preflight.vocabulary.finding import Finding, Scalar, sort_key
from preflight.vocabulary.live import Difference, Measurement, RankPulse
from preflight.vocabulary.report import SCHEMA, Report, Tool, Verdict
from preflight.vocabulary.version import VERSION


def outcome(
    command: str, subject: str, findings: Iterable[Finding], *, measurements: Iterable[Measurement] = (),
    pulses: Iterable[RankPulse] = (), differences: Iterable[Difference] = (), facts: Mapping[str, Scalar] | None = None,
    notes: Iterable[str] = (), undecided: bool = False, inputs: Mapping[str, Any] | None = None,
) -> Report:  # fmt: skip
    """Return the report: NO-GO where a finding decides, UNKNOWN where nothing could be seen, else GO."""
    told = tuple(sorted(findings, key=lambda one: (*sort_key(one), one.location.rank or 0, one.message)))
    verdict: Verdict = "NO-GO" if any(one.decides for one in told) else "UNKNOWN" if undecided else "GO"
    return Report(
        schema=SCHEMA, command=f"investigate {command}", tool=Tool("preflight", VERSION), verdict=verdict,
        inputs={"subject": subject, **(inputs or {})}, findings=told, measurements=tuple(measurements),
        pulses=tuple(pulses), differences=tuple(differences), notes=tuple(notes),
        facts={name: Fact(value=value) for name, value in (facts or {}).items()},
    )  # fmt: skip
