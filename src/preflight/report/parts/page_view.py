"""What the page shows of a report: harmless strings and drawn proportions, ready for the template."""

from __future__ import annotations

from typing import Any

from preflight.report.parts.clean import clean, clean_lines, one_line
from preflight.report.parts.compared import compared_parts
from preflight.report.parts.live_parts import live_parts
from preflight.report.parts.opinion_parts import opinion_parts
from preflight.report.parts.options import Options
from preflight.report.parts.page_incident import incident_tiles, incident_view
from preflight.report.parts.page_memory import bar, memory_view
from preflight.report.parts.page_plan import plan_view
from preflight.report.parts.page_watched import watched_view
from preflight.report.parts.sections import fact_rows, holder_rows, input_line, step_rows
from preflight.report.parts.sentences import (
    SEVERITY_WORDS,
    evidence_line,
    findings_of,
    if_it_fitted,
    number,
    of_severity,
    place,
    subject,
    verdict_line,
)
from preflight.report.parts.snippet import SnippetLine, snippet
from preflight.report.pictures.links import links_pictures
from preflight.report.pictures.roofline import roofline_picture
from preflight.vocabulary.finding import Finding, Fix
from preflight.vocabulary.quantity import format_bytes, format_duration, format_seconds
from preflight.vocabulary.report import Report

_TITLES = {"error": "Critical errors", "warning": "Warnings", "info": "Notes"}
_KINDS = {"error": "Error", "warning": "Warning", "info": "Note"}


def view(report: Report, options: Options) -> dict[str, Any]:
    """Return everything that the page shows of one report."""
    return {
        "verdict": report.verdict,
        "subject": subject(report),
        "told": verdict_line(report)[len(report.verdict) + 2 :],
        "plan": plan_view(report.plan) if report.plan is not None else None,
        "watched": watched_view(report, options),
        "incident": incident_view(report.incident, report.walk) if report.incident is not None else None,
        "compared": compared_parts(report),
        "links": links_pictures(report.measurements),
        "live": [*live_parts(report), *opinion_parts(report.opinion)],
        "inputs": input_line(report),
        "tiles": _tiles(report),
        "memory": memory_view(report.memory, report.profile) if report.memory is not None else None,
        "roofline": roofline_picture(report.roofline) if report.roofline is not None else None,
        "holders": holder_rows(report),
        "step": step_rows(report),
        "remark": if_it_fitted(report),
        "efficiency": _efficiency(report),
        "groups": _groups(report, options),
        "recommendations": [
            {
                "priority": item.priority,
                "change": one_line(item.change),
                "effect": one_line(item.effect),
                "side_effect": one_line(item.side_effect or ""),
            }
            for item in report.recommendations
        ],
        "facts": [row[:3] for row in fact_rows(report)],
        "not_evaluated": _not_evaluated(report),
        "not_evaluated_number": len(report.not_evaluated),
        "notes": [one_line(note) for note in report.notes],
    }


def _not_evaluated(report: Report) -> list[tuple[str, str]]:
    """Return (reason, rules), the reason that keeps most rules from being evaluated first."""
    rules: dict[str, list[str]] = {}
    for item in report.not_evaluated:
        rules.setdefault(one_line(item.reason), []).append(f"{clean(item.code)} {clean(item.rule)}")
    return [(reason, ", ".join(rules[reason])) for reason in sorted(rules, key=lambda why: (-len(rules[why]), why))]


def filters(report: Report) -> list[tuple[str, str, int]]:
    """Return (severity, name, count) of the severities that were found."""
    found = ((severity, words[1], len(of_severity(report, severity))) for severity, words in SEVERITY_WORDS.items())
    return [row for row in found if row[2]]


def _tiles(report: Report) -> list[dict[str, str]]:
    tiles = incident_tiles(report.incident) if report.incident is not None else []
    memory = report.memory
    if memory is not None:
        peak = memory.device_bytes or memory.peak_bytes
        limit = "" if memory.capacity_bytes is None else f"of {format_bytes(memory.capacity_bytes)}"
        words = {
            "yes": ("fits", "good"),
            "no": ("does not fit", "bad"),
            "unknown": ("not known whether it fits" if limit else "", ""),
        }[memory.fits]
        note = ", ".join(text for text in (limit, words[0]) if text) or "no capacity to compare with"
        value = format_bytes(peak.mid) if peak is not None else "not known"
        tiles.append({"name": "Peak memory", "value": value, "note": note, "tone": words[1]})
    tiles += _plan_tiles(report)
    if report.efficiency is not None:
        score, band = f"{report.efficiency.score:.0f} %", one_line(report.efficiency.band)
        tiles.append({"name": "Efficiency", "value": score, "note": band, "tone": ""})
    return tiles


def _plan_tiles(report: Report) -> list[dict[str, str]]:
    """Return the time of a step, how long the run takes and what it costs."""
    plan, tiles = report.plan, []
    step = plan.chosen.step if plan is not None and plan.chosen is not None else None
    if step is not None:
        note = f"{step.mfu * 100:.0f} % MFU" if step.mfu else ""
        tiles.append({"name": "Step", "value": format_seconds(step.seconds.mid), "note": note, "tone": ""})
    if plan is not None and plan.duration is not None and plan.duration.seconds is not None:
        steps = f"{plan.duration.steps:,} steps" if plan.duration.steps else ""
        tiles.append(
            {"name": "Duration", "value": format_duration(plan.duration.seconds.mid), "note": steps, "tone": ""}
        )
    if plan is not None and plan.cost is not None and plan.cost.usd is not None:
        usd = plan.cost.usd
        note = f"${usd.low:,.0f} to ${usd.high:,.0f}, prices of {plan.cost.price_date}"
        tiles.append({"name": "Cost", "value": f"${usd.mid:,.0f}", "note": note, "tone": ""})
    return tiles


def _efficiency(report: Report) -> dict[str, Any] | None:
    if report.efficiency is None:
        return None
    parts = [
        {
            "name": clean(part.name),
            "score": f"{part.score:.0f}",
            "weight": number(part.weight),
            "reason": one_line(part.reason),
            "bar": bar(part.score, 100.0),
        }
        for part in report.efficiency.parts
    ]
    return {"score": f"{report.efficiency.score:.0f}", "band": one_line(report.efficiency.band), "parts": parts}


def _groups(report: Report, options: Options) -> list[dict[str, Any]]:
    pages = {rule.code: rule.page for rule in options.rules}
    groups = []
    for severity, title in _TITLES.items():
        found = findings_of(report, severity)
        findings = [_finding(index, finding, options, pages) for index, finding in enumerate(found, 1)]
        if findings:
            groups.append({"title": title, "findings": findings})
    return groups


def _finding(index: int, finding: Finding, options: Options, pages: dict[str, str]) -> dict[str, Any]:
    return {
        "index": index,
        "severity": finding.severity,
        "kind": _KINDS[finding.severity],
        "message": clean_lines(finding.message),
        "place": place(finding.location),
        "code": clean(finding.code),
        "rule": f"{clean(finding.code)} {clean(finding.rule)}",
        "confidence": finding.confidence,
        "snippet": [_line(line) for line in snippet(finding.location, options.sources, around=2)],
        "evidence": [evidence_line(evidence) for evidence in finding.evidence],
        "related": [{"place": place(item.location), "message": one_line(item.message)} for item in finding.related],
        "fix": _fix(finding.fix) if finding.fix is not None else None,
        "page": "\n".join(clean_lines(pages.get(finding.code, ""))),
    }


def _line(line: SnippetLine) -> dict[str, Any]:
    """Split a line around its mark. Widths are columns of a terminal; in the page, wide characters count once."""
    end = line.start + line.width
    shown: dict[str, Any] = {"no": f"{line.number:>4}", "here": line.width > 0, "before": line.text}
    if line.width > 0:
        shown |= {"before": line.text[: line.start], "marked": line.text[line.start : end], "after": line.text[end:]}
    return shown


def _fix(fix: Fix) -> dict[str, str]:
    automatic = ""
    if fix.edits:
        kind, option = ("safe", "--fix") if fix.safe else ("unsafe", "--unsafe-fixes")
        automatic = f"There is an automatic, {kind} fix: {option} applies it, --diff shows it"
    return {
        "title": one_line(fix.title),
        "instruction": "\n".join(clean_lines(fix.instruction or "")),
        "expected": one_line(fix.expected or ""),
        "automatic": automatic,
    }
