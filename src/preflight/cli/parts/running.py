"""Run a check that was asked for, from the paths to one report."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import msgspec

from preflight.check.files.discover import STDIN, Found, discover
from preflight.check.files.source_lines import SourceLines
from preflight.check.selection import Selection
from preflight.cli.parts.request import Request
from preflight.cli.parts.writing import Writing, remark
from preflight.errors import UsageError
from preflight.source.script import Script
from preflight.vocabulary.report import Report

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from preflight.check.many import Identity


class Run(msgspec.Struct, frozen=True):
    """A finished check.

    Attributes:
        report: What was found.
        sources: The texts that were read, for snippets.
        stdin: The script from standard input, or None.
    """

    report: Report
    sources: SourceLines
    stdin: Script | None = None


def run(request: Request, writing: Writing, stdin: Script | None = None) -> Run:
    """Check what was asked for.

    Raises:
        InputError: What was named cannot be read.
        UsageError: An option does not fit.
    """
    if request.paths == (STDIN,):
        return _run_stdin(request, writing, stdin)
    files = discover(request.paths, request.exclude, request.base)
    _not_over_input(files, writing)
    sources = SourceLines()
    if len(files) == 1 and files[0].named:
        from preflight.check.examine import examine_named

        with _shown(request, writing):
            report = examine_named(files[0].path, request.options, request.selection)
        return Run(_with_baseline(report, request, writing, sources), sources)
    if request.options.arguments is not None and len(files) > 1:
        raise UsageError(
            "arguments of a script, and several scripts", "arguments after -- belong to one script; name that one alone"
        )
    return Run(_run_many(files, request, writing, sources), sources)


def _shown(request: Request, writing: Writing) -> AbstractContextManager[None]:
    """Show how far a dry run is; without one there is nothing to wait for."""
    from contextlib import nullcontext

    if not request.options.dry_run:
        return nullcontext()
    from preflight.cli.parts.progress import dry_runs

    return dry_runs(writing)


def _run_stdin(request: Request, writing: Writing, stdin: Script | None) -> Run:
    from preflight.check.examine import examine_script, script_from_stdin

    if stdin is None:
        from preflight.source.script import MAX_BYTES

        if sys.stdin is None:
            raise UsageError("standard input is closed")
        stdin = script_from_stdin(sys.stdin.buffer.read(MAX_BYTES + 1))
    sources = SourceLines({stdin.path: stdin.text})
    report = examine_script(stdin, request.options, request.selection)
    return Run(_with_baseline(report, request, writing, sources), sources, stdin)


def _run_many(files: list[Found], request: Request, writing: Writing, sources: SourceLines) -> Report:
    import gc

    from preflight.check.many import check_many, combine
    from preflight.cli.parts.progress import progress

    gc.set_threshold(200_000)  # what one file leaves behind must not wait for the last one
    with progress("files checked", writing) as tell:
        many = check_many(files, request.options, request.selection, request.jobs, tell)
    notes = list(many.notes)
    files_word = "file" if many.files == 1 else "files"
    looked = f"{many.files} {files_word} looked at, {many.read} of them import a library that trains"
    if many.scripts == 0:
        notes.insert(0, f"no training was recognised: {looked}")
    elif len(many.reports) != many.files:
        notes.append(looked)
    inputs: dict[str, object] = {"files": many.files, "scripts": many.scripts, "persona": request.selection.persona}
    return _with_baseline(combine(many.reports, request.paths, inputs, notes), request, writing, sources)


def _with_baseline(report: Report, request: Request, writing: Writing, sources: SourceLines) -> Report:
    """Hide what the baseline knows; write it where it is not there yet."""
    path = request.baseline
    if path is None:
        return report
    from preflight.check.files.baseline import read_baseline, without_known, write_baseline
    from preflight.check.many import identity

    there = os.path.exists(path)
    if request.update_baseline or (not there and request.baseline_named):
        number = write_baseline(path, report.findings, sources)
        remark(
            f"baseline {path} {'updated' if there else 'written'}, findings in it: {number}",
            writing,
        )
    elif not there:
        remark(f"there is no baseline {path} yet; --update-baseline writes it", writing)
        return report
    new = without_known(report.findings, read_baseline(path), path, sources)
    hidden = len(report.findings) - len(new)
    if not hidden:
        return report
    restricted = _restricted(report, {identity(finding) for finding in new}, request.selection)
    note = f"{hidden} {'finding is' if hidden == 1 else 'findings are'} in the baseline {path} and not shown"
    return msgspec.structs.replace(restricted, notes=(*restricted.notes, note))


def _restricted(report: Report, keep: set[Identity], selection: Selection) -> Report:
    from preflight.check.many import identity, restrict, worst_of

    if not report.scripts:
        return restrict(report, keep, selection) or msgspec.structs.replace(report, findings=(), verdict="GO")
    scripts = tuple(s for s in (restrict(script, keep, selection) for script in report.scripts) if s is not None)
    findings = tuple(finding for finding in report.findings if identity(finding) in keep)
    return msgspec.structs.replace(report, findings=findings, scripts=scripts, verdict=worst_of(scripts, "GO"))


def _not_over_input(files: list[Found], writing: Writing) -> None:
    """Refuse to write the answer over a script."""
    if writing.output is not None and os.path.exists(writing.output):
        target = os.path.realpath(writing.output)
        if any(os.path.realpath(found.path) == target for found in files):
            raise UsageError(f"-o {writing.output} is one of the files that are checked", "name another file")
