"""A checklist that was gone through, as a report: for the formats that all reports have."""

from __future__ import annotations

import platform
from collections.abc import Sequence

from preflight.vocabulary.checklist import Checklist, Item, Result
from preflight.vocabulary.finding import Finding, Fix, Location, Severity
from preflight.vocabulary.report import SCHEMA, Report, Tool, Verdict
from preflight.vocabulary.version import VERSION

_CODES = {"fail": "CHK101", "warn": "CHK102", "unknown": "CHK103", "not-run": "CHK104"}
_SAID = {"unknown": "could not be checked: ", "not-run": "was not checked: "}


def report_of(checklist: Checklist, results: Sequence[Result], verdict: Verdict, summary: str) -> Report:
    """Return the report: an item that does not pass is a finding, one that passes a remark."""
    pairs = list(zip(checklist.items, results, strict=True))
    return Report(
        schema=SCHEMA,
        command="investigate checklist",
        tool=Tool(name="preflight", version=VERSION),
        verdict=verdict,
        inputs={"subject": f"{checklist.title}: {summary}"},
        findings=tuple(_finding(item, one) for item, one in pairs if one.standing != "pass"),
        notes=tuple(f"pass: {item.title}: {one.text}" for item, one in pairs if one.standing == "pass"),
    )


def _finding(item: Item, result: Result) -> Finding:
    severity: Severity = "info"
    if result.standing == "fail" and result.critical:
        severity = "error"
    elif result.critical or result.standing in ("fail", "warn"):
        severity = "warning"
    fix = None
    if result.remedies:
        fix = Fix(
            title="A remedy", instruction="\n".join(f"preflight investigate fix {one}" for one in result.remedies)
        )
    said = f"{item.title}{' (critical)' if result.critical else ''}: {_SAID.get(result.standing, '')}{result.text}"
    return Finding(
        rule=f"checklist.{item.id}",
        code=_CODES[result.standing],
        severity=severity,
        confidence="certain",
        message=said,
        location=Location(node=platform.node()),
        fix=fix,
    )
