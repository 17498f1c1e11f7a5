"""Markdown for a pull request, an issue or a job summary."""

from __future__ import annotations

from collections.abc import Sequence

from preflight.report.parts.alarm_markdown import alarm_lines
from preflight.report.parts.clean import clean, clean_lines, one_line
from preflight.report.parts.compared import compared_parts
from preflight.report.parts.incident_markdown import incident_lines
from preflight.report.parts.live_parts import live_parts
from preflight.report.parts.opinion_parts import opinion_parts
from preflight.report.parts.options import Options
from preflight.report.parts.plan_markdown import plan_lines
from preflight.report.parts.sections import fact_rows, holder_rows, input_line, step_rows, summary_rows
from preflight.report.parts.sentences import (
    capacity,
    counts,
    evidence_line,
    findings_of,
    interval,
    number,
    oom_line,
    part_name,
    place,
    subject,
    verdict_line,
)
from preflight.report.parts.snippet import snippet
from preflight.report.parts.walk_markdown import walk_lines
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.memory import TOTALS, MemoryEstimate
from preflight.vocabulary.quantity import format_bytes
from preflight.vocabulary.report import Report

ENDINGS = (".md", ".markdown")
_TITLES = {"error": "Critical errors", "warning": "Warnings", "info": "Notes"}
_SPECIAL = str.maketrans(
    {**{char: f"\\{char}" for char in "\\`*_[]#|~$"}, "<": "&lt;", ">": "&gt;", "&": "&amp;", "@": "&#64;"}
)


def render(report: Report, options: Options) -> str:
    """Return the report as GitHub-flavoured Markdown."""
    lines: list[str] = []
    if len(report.scripts) > 1:
        lines += [f"# {report.verdict}: {counts(report)}", ""]
        titles, *rows = summary_rows(report)
        lines += _table(titles, [tuple(escape(cell) for cell in row) for row in rows])
        for script in report.scripts:
            if script.told or script.verdict != "GO":
                lines += _block(script, options, "##")
    else:
        lines += _block(report, options, "#")
    return "\n".join(lines).rstrip("\n") + "\n"


def escape(text: str) -> str:
    """Return one line of harmless text in which nothing is Markdown or HTML, nor mentions anybody."""
    line = one_line(text).translate(_SPECIAL)
    return f"\\{line}" if line[:1] in ("-", "+", "=") else line


def code(text: str) -> str:
    """Return text as a code span, with a fence longer than any run of backticks within."""
    line = one_line(text)
    fence = "`" * (max((len(run) for run in _runs(line)), default=0) + 1)
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}"


def _runs(text: str) -> list[str]:
    return [run for run in "".join(char if char == "`" else " " for char in text).split(" ") if run]


def _block(report: Report, options: Options, level: str) -> list[str]:
    lines = [f"{level} {report.verdict}: {escape(subject(report))}", "", f"{escape(verdict_line(report))}", ""]
    inputs = input_line(report)
    lines += [escape(inputs), ""] if inputs else []
    lines += incident_lines(report.incident, level, escape, code, _table) if report.incident is not None else []
    lines += walk_lines(report.walk, level, escape, code) if report.walk is not None else []
    for part in (*compared_parts(report), *live_parts(report), *opinion_parts(report.opinion)):
        lines += [f"{level}# {escape(part.title)}", ""]
        lines += [*(f"- {escape(text)}" for text in part.sentences), ""] if part.sentences else []
        rows = [tuple(escape(cell) for cell in row) for row in part.rows]
        lines += _table(part.titles, rows) if rows else []
    lines += alarm_lines(report, options, level, escape, code)
    for severity, title in _TITLES.items():
        findings = findings_of(report, severity)
        if findings:
            lines += [f"{level}# {title} ({len(findings)})", ""]
            for index, finding in enumerate(findings, 1):
                lines += _finding(index, finding, options)
    lines += plan_lines(report.plan, level, escape, _table) if report.plan is not None else []
    lines += _memory(report.memory, level) if report.memory is not None else []
    lines += _efficiency(report, level)
    lines += _rest(report, level)
    return lines


def _memory(memory: MemoryEstimate, level: str) -> list[str]:
    lines = [f"{level}# Memory of one GPU", ""]
    if memory.peak_bytes is None:
        lines += [f"Not known: {escape(memory.reason or 'no reason was given')}", ""]
    rows = []
    for field, name in TOTALS.items():
        value = getattr(memory, field)
        if value is not None:
            rows.append((name, format_bytes(value.mid), interval(value)))
    if memory.capacity_bytes is not None:
        rows.append(("capacity of the GPU", format_bytes(memory.capacity_bytes), f"**{capacity(memory)}**"))
    else:
        rows.append(("capacity of the GPU", "not known", capacity(memory)))
    lines += _table(("what", "size", "interval"), rows)
    if memory.oom is not None:
        said = f": {escape(memory.oom.arithmetic)}" if memory.oom.arithmetic else ""
        lines += [f"**{oom_line(memory.oom)}**{said}", ""]
    if memory.breakdown is not None and memory.breakdown.total > 0:
        parts = memory.breakdown
        sizes = sorted(((getattr(parts, field), field) for field in parts.__struct_fields__), reverse=True)
        shown = [
            (part_name(field), format_bytes(size), f"{size / parts.total * 100:.0f} %")
            for size, field in sizes
            if size > 0
        ]
        lines += _table(("part", "size", "share"), shown)
    return lines


def _efficiency(report: Report, level: str) -> list[str]:
    if report.efficiency is None:
        return []
    score = report.efficiency
    lines = [f"{level}# Efficiency: {score.score:.0f} %", "", escape(score.band), ""]
    rows = [
        (escape(part.name), f"{part.score:.0f} %", number(part.weight), escape(part.reason)) for part in score.parts
    ]
    return lines + (_table(("part", "score", "weight", "reason"), rows) if rows else [])


def _finding(index: int, finding: Finding, options: Options) -> list[str]:
    message = "<br>".join(escape(line) for line in clean_lines(finding.message))
    where = place(finding.location)
    rule = f"{code(f'{clean(finding.code)} {clean(finding.rule)}')} ({finding.confidence})"
    lines = [f"{code(where)} · {rule}" if where else rule, ""]
    shown = snippet(finding.location, options.sources)
    if shown:
        fence = "`" * max(3, max((len(run) + 1 for line in shown for run in _runs(line.text)), default=0))
        lines += [f"{fence}python", *(line.text for line in shown), fence, ""]
    lines += [f"- seen: {escape(evidence_line(evidence))}" for evidence in finding.evidence]
    lines += [f"- see: {code(place(item.location))}: {escape(item.message)}" for item in finding.related]
    if finding.fix is not None:
        lines.append(f"- hint: {escape(finding.fix.title)}")
        lines += [f"  - {escape(line)}" for line in clean_lines(finding.fix.instruction or "") if line]
        lines += [f"  - expected: {escape(finding.fix.expected)}"] if finding.fix.expected else []
    number_mark = f"{index}. "
    under = " " * len(number_mark)
    return [f"{number_mark}**{message}**", *(under + line if line else "" for line in lines), ""]


def _rest(report: Report, level: str) -> list[str]:
    lines: list[str] = []
    if report.recommendations:
        rows = [
            (item.priority, escape(item.change), escape(item.effect), escape(item.side_effect or ""))
            for item in report.recommendations
        ]
        lines += [f"{level}# Recommendations", "", *_table(("priority", "change", "expected", "costs"), rows)]
    holders = holder_rows(report)
    if holders:
        cells = [(escape(a), escape(b), escape(c)) for a, b, c in holders]
        lines += [f"{level}# Largest holders at the peak", "", *_table(("bytes", "category", "where"), cells)]
    steps = step_rows(report)
    if steps:
        lines += [f"{level}# Step", "", *_table(("what", "value"), [(escape(a), escape(b)) for a, b in steps])]
    facts = [tuple(escape(cell) for cell in row[:3]) for row in fact_rows(report)]
    if facts:
        lines += [
            "<details><summary>What was read</summary>",
            "",
            *_table(("fact", "value", "origin"), facts),
            "</details>",
            "",
        ]
    if report.not_evaluated:
        lines += [f"Rules that were not evaluated, for want of a fact: {len(report.not_evaluated)}", ""]
    lines += [f"- {escape(note)}" for note in report.notes]
    return lines


def _table(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return a table; the cells are Markdown already."""
    lines = [f"| {' | '.join(titles)} |", f"|{' --- |' * len(titles)}"]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows), ""]
