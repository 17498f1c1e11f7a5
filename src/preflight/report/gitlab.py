"""GitLab's code quality report: each finding stands at its line in the changes of a merge request."""

from __future__ import annotations

from typing import Any

from preflight.report.parts.clean import one_line
from preflight.report.parts.options import Options
from preflight.report.parts.plain import encode, plain
from preflight.report.parts.results import results
from preflight.report.parts.sarif_place import FINGERPRINT, fingerprints
from preflight.report.parts.sentences import evidence_line, named
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.report import Report

ENDINGS = (".codequality.json",)
_SEVERITIES = {"error": "critical", "warning": "minor", "info": "info"}


def render(report: Report, options: Options) -> str:
    """Return a list of issues; GitLab shows those only that are in a file, so that others are left out.

    Source: docs.gitlab.com/ci/testing/code_quality, "Code Quality report format".
    """
    told = results(report)
    prints = fingerprints(told, options.sources)
    issues = [
        _issue(finding, one[FINGERPRINT]) for finding, one in zip(told, prints, strict=True) if finding.location.path
    ]
    return encode(plain(issues))


def _issue(finding: Finding, fingerprint: str) -> dict[str, Any]:
    at = finding.location
    # Lines of a notebook's cell are not lines of its file, and an issue has to name one.
    line = at.line if at.line is not None and at.cell is None else 1
    lines = [finding.message, *(f"seen: {evidence_line(one)}" for one in finding.evidence)]
    if finding.fix is not None:
        lines.append(f"hint: {finding.fix.title}")
    path = (at.path or "").replace("\\", "/")
    return {
        "description": "\n".join(one_line(one) for one in lines),
        "check_name": named(finding),
        "fingerprint": fingerprint,
        "severity": _SEVERITIES[finding.severity],
        "location": {"path": path.removeprefix("./"), "lines": {"begin": line}},
    }
