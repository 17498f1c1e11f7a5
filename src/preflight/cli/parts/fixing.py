"""``--diff`` and ``--fix``: what the fixes of the findings do to the files, and what remains."""

from __future__ import annotations

import os
from collections import Counter

import msgspec

from preflight.check.files.fix import Fixing
from preflight.cli.parts.request import Request
from preflight.cli.parts.running import Run, run
from preflight.cli.parts.writing import Writing, put, remark
from preflight.errors import UsageError
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.report import Report

MOST_PASSES = 8
Kind = tuple[str, str | None]


def patch(request: Request, writing: Writing, unsafe: bool) -> Report:
    """Print what the fixes would change as a patch; return the report of the check."""
    done = run(request, writing)
    fixing = _plan(done.report.findings, done, request, unsafe)
    put(fixing.diff(), writing)
    _tell_skipped(fixing, writing)
    if not unsafe:
        _tell_unsafe(done.report, writing)
    elif not fixing.applied:
        remark("no finding has a fix that can be applied automatically", writing)
    _tell_notebooks(done.report, writing)
    return done.report


def fixed(request: Request, writing: Writing, unsafe: bool) -> Run:
    """Apply the fixes, check again, and tell what was fixed and what persists.

    Fixes that overlap are applied one pass after the other. A fix that did not remove its finding is not tried again.
    """
    if request.paths == ("-",):
        raise UsageError("standard input cannot be fixed in place", "--diff prints the change as a patch")
    done = run(request, writing)
    applied: list[Finding] = []
    stubborn: set[Kind] = set()
    fixing = None
    for _ in range(MOST_PASSES):
        fixing = _plan([f for f in done.report.findings if _kind(f) not in stubborn], done, request, unsafe)
        if not fixing.changes:
            break
        fixing.write()
        before = done.report.findings
        done = run(request, writing)
        stubborn |= _persisting(before, fixing.applied, done.report.findings)
        applied += fixing.applied
    _tell(applied, stubborn, done.report, writing)
    if fixing is not None:
        _tell_skipped(fixing, writing)
    if not unsafe:
        _tell_unsafe(done.report, writing)
    _tell_notebooks(done.report, writing)
    return _with_inputs(done, applied, stubborn)


def _plan(findings: list[Finding] | tuple[Finding, ...], done: Run, request: Request, unsafe: bool) -> Fixing:
    from preflight.check.files.text_file import TextFile
    from preflight.source.project import find_root

    texts = {}
    if done.stdin is not None and not done.stdin.cells:
        texts[done.stdin.path] = TextFile(done.stdin.path, done.stdin.text)
    from pathlib import Path

    first = request.paths[0]
    folder = Path(first if os.path.isdir(first) else os.path.dirname(first) or ".").resolve()
    return Fixing(findings, unsafe=unsafe, root=str(find_root(folder)), texts=texts)


def _kind(finding: Finding) -> Kind:
    return finding.code, finding.location.path


def _persisting(before: tuple[Finding, ...], applied: list[Finding], after: tuple[Finding, ...]) -> set[Kind]:
    """The kinds of findings that are as many as before, or more than those that were left."""
    had, done, have = (Counter(_kind(finding) for finding in findings) for findings in (before, applied, after))
    return {kind for kind, number in done.items() if have[kind] > had[kind] - number}


def _tell(applied: list[Finding], stubborn: set[Kind], report: Report, writing: Writing) -> None:
    kept = [finding for finding in applied if _kind(finding) not in stubborn]
    files = len({edit.path for finding in applied for edit in (finding.fix.edits if finding.fix else ())})
    left = len(report.findings)
    if not applied:
        remark(f"nothing was fixed: no finding has a fix that can be applied; {left} left", writing)
        return
    remark(f"{len(kept)} fixed in {files} {'file' if files == 1 else 'files'}; {left} left", writing)
    for finding in kept:
        title = finding.fix.title if finding.fix else ""
        remark(
            f"fixed {finding.location.path}:{finding.location.line}: {finding.code} {finding.rule}: {title}", writing
        )
    for code, path in sorted(stubborn, key=str):
        remark(f"{path}: the fix of {code} was applied, and the finding persists", writing)


def _tell_skipped(fixing: Fixing, writing: Writing) -> None:
    for finding, reason in fixing.skipped:
        remark(f"not applied: {finding.location.path}:{finding.location.line}: {finding.code}: {reason}", writing)


def _tell_unsafe(report: Report, writing: Writing) -> None:
    number = sum(1 for f in report.findings if f.fix is not None and f.fix.edits and not f.fix.safe)
    if number:
        said = "1 fix changes" if number == 1 else f"{number} fixes change"
        remark(
            f"{said} what is computed, and {'was' if number == 1 else 'were'} left out; --unsafe-fixes takes in all",
            writing,
        )


def _tell_notebooks(report: Report, writing: Writing) -> None:
    if any(finding.location.cell is not None for finding in report.findings):
        remark("notebooks are checked and not edited: what is found in a cell is yours to change", writing)


def _with_inputs(done: Run, applied: list[Finding], stubborn: set[Kind]) -> Run:
    """Put what was fixed into the report, for those who read the JSON."""
    if not applied:
        return done
    told = [
        {
            "code": f.code,
            "rule": f.rule,
            "path": f.location.path,
            "line": f.location.line,
            "persists": _kind(f) in stubborn,
        }
        for f in applied
    ]
    return msgspec.structs.replace(
        done, report=msgspec.structs.replace(done.report, inputs={**done.report.inputs, "fixed": told})
    )
