"""The findings of the terminal report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from preflight.report.parts.clean import clean_lines, one_line
from preflight.report.parts.paint import SEVERITY_STYLES, Canvas
from preflight.report.parts.sentences import evidence_line, named, place
from preflight.report.parts.snippet import SnippetLine, snippet
from preflight.vocabulary.finding import Finding, Fix, Location

CONFIDENCE_WORDS = {"certain": "", "likely": "likely", "possible": "possible, does not decide"}


def findings_section(canvas: Canvas, title: str, findings: Iterable[Finding], sources: Mapping[str, str]) -> None:
    """Add the numbered findings of one severity."""
    listed = list(findings)
    canvas.heading(f"{title} ({len(listed)})", style=SEVERITY_STYLES[listed[0].severity])
    for index, finding in enumerate(listed, 1):
        if index > 1:
            canvas.blank()
        _finding(canvas, index, finding, sources)


def _finding(canvas: Canvas, index: int, finding: Finding, sources: Mapping[str, str]) -> None:
    first = f"{index}. "
    inner = 2 + len(first)
    lines = clean_lines(finding.message)
    canvas.write(lines[0], indent=2, first=first, style="bold")
    for line in lines[1:]:
        canvas.write(line, indent=inner)
    sure = CONFIDENCE_WORDS[finding.confidence]
    rule = named(finding) + (f" ({sure})" if sure else "")
    where = place(finding.location)
    if where:
        canvas.place(where, f"  {rule}", indent=inner, style="cyan")
    else:
        canvas.write(rule, indent=inner, style="cyan")
    snippet_lines(canvas, finding.location, sources, inner, SEVERITY_STYLES[finding.severity])
    for evidence in finding.evidence:
        canvas.write(evidence_line(evidence), indent=inner, first="seen: ")
    for related in finding.related:
        canvas.place(place(related.location), f": {one_line(related.message)}", indent=inner, first="see:  ")
    if finding.fix is not None:
        _fix(canvas, finding.fix, inner)


def snippet_lines(canvas: Canvas, at: Location, sources: Mapping[str, str], indent: int, style: str) -> None:
    """Add the source lines of a place, where they are at hand."""
    for shown in snippet(at, sources):
        _snippet_line(canvas, shown, indent, style)


def _snippet_line(canvas: Canvas, line: SnippetLine, indent: int, style: str) -> None:
    """Add a source line and the caret under it; a line that is too wide is cut around the place."""
    margin = f"{line.number:>5} | "
    room = max(canvas.width - indent - len(margin), 16)
    text, start = line.text, line.start
    if len(text) > room:
        skip = max(0, min(start - room // 3, len(text) - room))
        before, after = ("..." if skip else ""), ("..." if skip + room < len(text) else "")
        text = before + text[skip + len(before) : skip + room - len(after)] + after
        start -= skip
    canvas.lines.append((" " * indent + margin + text).rstrip())
    caret = "^" * max(min(line.width, room - start), 1)
    canvas.lines.append(" " * indent + " " * 5 + " | " + " " * start + canvas.paint(caret, style))


def _fix(canvas: Canvas, fix: Fix, indent: int) -> None:
    canvas.write(one_line(fix.title), indent=indent, first="hint: ", first_style="green")
    if fix.instruction:
        for line in clean_lines(fix.instruction):
            canvas.write(line, indent=indent + 6)
    if fix.expected:
        canvas.write(one_line(fix.expected), indent=indent + 6, first="expected: ")
    if fix.edits:
        option = "--fix" if fix.safe else "--unsafe-fixes"
        kind = "safe" if fix.safe else "unsafe"
        canvas.write(f"there is an automatic, {kind} fix: {option} (shown by --diff)", indent=indent + 6)
