"""SARIF 2.1.0, for code scanning and editors."""

from __future__ import annotations

from typing import Any

from preflight.report.parts.clean import clean, clean_lines, one_line
from preflight.report.parts.options import Options
from preflight.report.parts.plain import encode, plain
from preflight.report.parts.results import results
from preflight.report.parts.sarif_place import artifact, fingerprints, location, message_text
from preflight.report.parts.sentences import evidence_line, verdict_line
from preflight.vocabulary.finding import Edit, Finding, Fix
from preflight.vocabulary.report import Report
from preflight.vocabulary.rule_info import RuleInfo

ENDINGS = (".sarif", ".sarif.json")
SCHEMA_URI = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
_PRECISIONS = {"certain": "very-high", "likely": "high", "possible": "medium"}
_PROBLEMS = {"error": "error", "warning": "warning", "info": "recommendation"}


def render(report: Report, options: Options) -> str:
    """Return the report as a SARIF log with one run; columns count Unicode code points from 1."""
    told = results(report)
    rules = _rules(told, options.rules)
    index = {rule["id"]: position for position, rule in enumerate(rules)}
    prints = fingerprints(told, options.sources)
    run = {
        "tool": {"driver": {"name": report.tool.name, "version": report.tool.version, "rules": rules}},
        "invocations": [_invocation(report)],
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"%SRCROOT%": {"description": {"text": "the folder that the tool was started in"}}},
        "results": [_result(finding, index, one) for finding, one in zip(told, prints, strict=True)],
        "properties": _properties(report),
    }
    return encode(plain({"$schema": SCHEMA_URI, "version": "2.1.0", "runs": [run]}))


def _rules(told: tuple[Finding, ...], given: tuple[RuleInfo, ...]) -> list[dict[str, Any]]:
    """Return what is known of every rule: those given, and the bare names of others that found something."""
    rules = {rule.code: _rule(rule) for rule in given}
    for finding in told:
        rules.setdefault(finding.code, {"id": finding.code, "name": finding.rule})
    return [rules[code] for code in sorted(rules)]


def _rule(rule: RuleInfo) -> dict[str, Any]:
    page = rule.page or rule.title
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": _first_paragraph(page) or rule.title},
        "help": {"text": page, "markdown": page},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {
            "precision": _PRECISIONS[rule.confidence],
            "problem.severity": _PROBLEMS[rule.severity],
            "persona": rule.persona,
            "tags": sorted(set(rule.tags)),
        },
    }


def _first_paragraph(page: str) -> str:
    """Return the first paragraph of a page that is not a heading, as one line."""
    for paragraph in page.replace("\r\n", "\n").split("\n\n"):
        lines = [line for line in paragraph.split("\n") if line.strip() and not line.startswith("#")]
        if lines:
            return one_line("\n".join(lines))
    return ""


def _result(finding: Finding, index: dict[str, int], prints: dict[str, str]) -> dict[str, Any]:
    properties: dict[str, Any] = {"rule": finding.rule, "confidence": finding.confidence}
    if finding.evidence:
        properties["evidence"] = [plain(item) for item in finding.evidence]
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index[finding.code],
        "level": _LEVELS[finding.severity],
        "message": {"text": _message(finding)},
        "locations": [location(finding.location)],
        "partialFingerprints": prints,
        "properties": properties,
    }
    if finding.related:
        result["relatedLocations"] = [
            location(item.location, identifier=number, message=one_line(item.message))
            for number, item in enumerate(finding.related, 1)
        ]
    if finding.fix is not None:
        properties["fix"] = plain(finding.fix)
        if finding.fix.edits:
            result["fixes"] = [_fix(finding.fix)]
    return result


def _message(finding: Finding) -> str:
    lines = clean_lines(finding.message)
    lines += [f"seen: {evidence_line(evidence)}" for evidence in finding.evidence]
    if finding.fix is not None:
        lines.append(f"hint: {one_line(finding.fix.title)}")
        lines += clean_lines(finding.fix.instruction) if finding.fix.instruction else []
    return message_text("\n".join(lines))


def _fix(fix: Fix) -> dict[str, Any]:
    by_path: dict[str, list[Edit]] = {}
    for edit in fix.edits:
        by_path.setdefault(edit.path, []).append(edit)
    changes = [
        {"artifactLocation": artifact(path), "replacements": [_replacement(edit) for edit in edits]}
        for path, edits in by_path.items()
    ]
    kind = "safe" if fix.safe else "unsafe"
    return {"description": {"text": f"{one_line(fix.title)} ({kind})"}, "artifactChanges": changes}


def _replacement(edit: Edit) -> dict[str, Any]:
    deleted = {
        "startLine": edit.line,
        "startColumn": edit.column,
        "endLine": edit.end_line,
        "endColumn": edit.end_column,
    }
    return {"deletedRegion": deleted, "insertedContent": {"text": edit.text}}


def _invocation(report: Report) -> dict[str, Any]:
    invocation: dict[str, Any] = {"executionSuccessful": True}
    notes = [{"level": "note", "message": {"text": one_line(note)}} for note in report.notes if note.strip()]
    if notes:
        invocation["toolExecutionNotifications"] = notes
    return invocation


def _properties(report: Report) -> dict[str, Any]:
    properties: dict[str, Any] = {"verdict": report.verdict, "summary": clean(verdict_line(report))}
    if report.memory is not None:
        properties["memory"] = plain(report.memory)
    if report.efficiency is not None:
        properties["efficiency"] = plain(report.efficiency)
    if report.not_evaluated:
        properties["notEvaluated"] = [plain(item) for item in report.not_evaluated]
    return properties
