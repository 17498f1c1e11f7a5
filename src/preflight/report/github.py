"""GitHub workflow commands: each finding becomes an annotation on its line."""

from __future__ import annotations

from preflight.report.parts.clean import clean, clean_lines, one_line
from preflight.report.parts.options import Options
from preflight.report.parts.results import results
from preflight.report.parts.sentences import evidence_line, named, place, quick_line
from preflight.vocabulary.finding import Finding, Location
from preflight.vocabulary.report import Report

ENDINGS = ()
_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}
_VERDICT_COMMANDS = {"NO-GO": "error", "UNKNOWN": "warning", "GO": "notice"}


def render(report: Report, options: Options) -> str:
    """Return one command per finding and one with the verdict."""
    # The verdict is said below anyway: where it is a result itself, it has nothing to add without a place.
    told = [finding for finding in results(report) if finding in report.told or finding.location != Location()]
    lines = [_annotation(finding) for finding in told]
    verdict = _VERDICT_COMMANDS[report.verdict]
    lines.append(f"::{verdict} title={_property('preflight ' + report.command)}::{_data(quick_line(report))}")
    return "\n".join(lines) + "\n"


def _annotation(finding: Finding) -> str:
    properties = _place(finding.location)
    properties["title"] = named(finding)
    given = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{_COMMANDS[finding.severity]} {given}::{_data(_message(finding))}"


def _message(finding: Finding) -> str:
    lines = clean_lines(finding.message)
    at = finding.location
    if at.path is None or at.cell is not None:
        where = place(at)
        lines += [f"at: {where}"] if where else []
    lines += [f"seen: {evidence_line(evidence)}" for evidence in finding.evidence]
    if finding.fix is not None:
        lines.append(f"hint: {one_line(finding.fix.title)}")
    return "\n".join(lines)


def _place(location: Location) -> dict[str, str]:
    """Return the properties of a place. Lines of a notebook cell are not lines of the file, so they are left out.

    GitHub counts columns from 1 and takes the end column as the last one that is marked; columns need a single line.
    """
    if location.path is None:
        return {}
    properties = {"file": clean(location.path)}
    if location.line is None or location.cell is not None:
        return properties
    properties["line"] = str(location.line)
    if location.end_line is not None:
        properties["endLine"] = str(location.end_line)
    if location.column is not None and location.end_line in (None, location.line):
        properties["col"] = str(location.column)
        if location.end_column is not None and location.end_column > location.column:
            properties["endColumn"] = str(location.end_column - 1)
    return properties


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
