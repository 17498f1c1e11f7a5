"""JUnit XML: each script is a suite, its verdict and each finding a case, for the test view of a CI server."""

from __future__ import annotations

from preflight.report.parts.clean import clean_lines, one_line
from preflight.report.parts.options import Options
from preflight.report.parts.results import results
from preflight.report.parts.sentences import advice, evidence_line, named, oom_line, peak_of, place, subject
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.report import Report

ENDINGS = (".xml",)


def render(report: Report, options: Options) -> str:
    """Return the report as JUnit XML.

    The verdict fails on NO-GO and is skipped on UNKNOWN. A finding fails when it makes the verdict NO-GO;
    any other is a case that passes and says what was seen. The place stands in the name of a case and in its text:
    the schema of Jenkins' xUnit plugin (junit-10.xsd) knows no attributes for it, and refuses a file that has some.
    """
    scripts = report.scripts or (report,)
    suites = [_suite(script) for script in scripts]
    tests = sum(1 + len(script.told) for script in scripts)
    failures = sum(_failures(script) for script in scripts)
    head = f'<testsuites name="preflight {_text(report.command)}" tests="{tests}" failures="{failures}" errors="0">'
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', head, *suites, "</testsuites>"]) + "\n"


def _failures(report: Report) -> int:
    return sum(finding.decides for finding in report.told) + (report.verdict == "NO-GO")


def _suite(report: Report) -> str:
    name = _text(subject(report))
    skipped = int(report.verdict == "UNKNOWN")
    counts = f'tests="{1 + len(report.told)}" failures="{_failures(report)}" errors="0" skipped="{skipped}"'
    cases = [_verdict(report), *(_case(finding, report) for finding in report.told)]
    return "\n".join([f'  <testsuite name="{name}" {counts}>', *cases, "  </testsuite>"])


def _verdict(report: Report) -> str:
    said = [advice(report) or report.verdict]
    if report.memory is not None:
        said.append(peak_of(report.memory))
        if report.memory.oom is not None:
            said.append(oom_line(report.memory.oom))
            said += [one_line(report.memory.oom.arithmetic)] if report.memory.oom.arithmetic else []
    for finding in results(report)[len(report.told) :]:
        said += _lines(finding)
    head = f'    <testcase classname="{_text(subject(report))}" name="verdict">'
    body = _text("\n".join(said))
    if report.verdict == "NO-GO":
        inner = f'<failure type="NO-GO" message="{_text(said[0])}">{body}</failure>'
    elif report.verdict == "UNKNOWN":
        inner = f'<skipped message="{_text(said[0])}"/>'
    else:
        inner = f"<system-out>{body}</system-out>"
    return f"{head}\n      {inner}\n    </testcase>"


def _case(finding: Finding, report: Report) -> str:
    body = _text("\n".join([*clean_lines(finding.message), *_lines(finding)]))
    name = _text(f"{named(finding)} {place(finding.location)}")
    head = f'    <testcase classname="{_text(subject(report))}" name="{name}">'
    kind = f"{finding.severity}, {finding.confidence}"
    if finding.decides:
        inner = f'<failure type="{kind}" message="{_text(one_line(finding.message))}">{body}</failure>'
    else:
        inner = f"<system-out>{kind}: {body}</system-out>"
    return f"{head}\n      {inner}\n    </testcase>"


def _lines(finding: Finding) -> list[str]:
    """Return where it is, what was seen and what to do."""
    where = place(finding.location)
    lines = [f"at {where}"] if where else []
    lines += [f"seen: {evidence_line(evidence)}" for evidence in finding.evidence]
    return lines + ([f"hint: {one_line(finding.fix.title)}"] if finding.fix is not None else [])


def _text(text: str) -> str:
    """Return harmless text escaped for XML; line ends stand in elements only."""
    from html import escape

    return escape(text, quote=True)
