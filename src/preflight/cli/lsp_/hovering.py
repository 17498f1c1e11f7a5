"""What is shown where the pointer rests: findings with the page of their rule, and facts that were read from the line."""

from __future__ import annotations

from typing import Any

from preflight.check.notices import all_rules
from preflight.cli.lsp_.checking import Checked
from preflight.cli.lsp_.diagnostics import same_file
from preflight.cli.lsp_.places import line_of, span
from preflight.report.parts.clean import one_line
from preflight.report.parts.sections import fact_rows
from preflight.report.parts.sentences import evidence_line
from preflight.vocabulary.finding import Finding


def hover(document: Any, checked: Checked, position: Any) -> str | None:
    """Return what there is to say of a place, in Markdown; None where there is nothing."""
    parts = [_of_finding(finding) for finding in at(document, checked, position)]
    facts = _facts(document, checked, line_of(position))
    if facts:
        parts.append("\n".join(facts))
    return "\n\n---\n\n".join(parts) or None


def at(document: Any, checked: Checked, position: Any) -> list[Finding]:
    """Return the findings that are underlined at a position."""
    found = []
    for finding in checked.findings:
        if same_file(finding.location.path, document.path):
            where = span(document, finding.location)
            if where.start <= position <= where.end:
                found.append(finding)
    return found


def _of_finding(finding: Finding) -> str:
    sure = "" if finding.confidence == "certain" else f", {finding.confidence}"
    lines = [f"**{finding.code} {finding.rule}** ({finding.severity}{sure})", "", one_line(finding.message)]
    lines += ["", *(f"- {evidence_line(one)}" for one in finding.evidence)] if finding.evidence else []
    if finding.fix is not None:
        lines += ["", f"*Hint:* {one_line(finding.fix.title)}"]
        lines += [f"*Expected:* {one_line(finding.fix.expected)}"] if finding.fix.expected else []
    page = next((loaded.page for loaded in all_rules() if loaded.rule.code == finding.code), "")
    body = page.strip().partition("\n")[2].strip()
    return "\n".join([*lines, "", body]).rstrip()


def _facts(document: Any, checked: Checked, line: int) -> list[str]:
    """What the check read from this line: ``batch.micro: 4 (default of --batch-size)``."""
    if checked.report is None:
        return []
    told = []
    for row in fact_rows(checked.report):
        fact = checked.report.facts.get(row.name)
        where = fact.location if fact is not None else None
        if row.known and where is not None and where.line == line and same_file(where.path, document.path):
            told.append(f"- `{row.name}`: {row.value}" + (f" ({fact.how})" if fact is not None and fact.how else ""))
    return ["Preflight read from this line:", "", *told] if told else []
