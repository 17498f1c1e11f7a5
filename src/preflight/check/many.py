"""Many files: spread over the cores, in a fixed order, put together under the worst verdict."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import msgspec

from preflight.check.asked import Options
from preflight.check.efficiency import change_of
from preflight.check.examine import BROKEN_NOTE, Examined, examine
from preflight.check.files.discover import Found
from preflight.check.selection import LIBRARY_NOTE, Selection, conclude
from preflight.errors import PreflightError
from preflight.vocabulary.finding import Finding, sort_key
from preflight.vocabulary.report import SCHEMA, VERDICT_ORDER, Recommendation, Report, Tool, Verdict
from preflight.vocabulary.version import VERSION

CHUNK = 12
"""Files per piece of work: enough that handing it over costs nothing, few enough that the cores finish together."""

NOT_READ = "not read: "
"""How a note about a file begins that could not be read."""

Progress = Callable[[int, int], None]
Identity = tuple[str, str | None, int | None, int | None, int | None]


class Many(msgspec.Struct, frozen=True):
    """What looking at many files gave.

    Attributes:
        reports: The reports of those with something to say, in the order of the files.
        files: How many files there were.
        read: How many of them import a library that trains.
        scripts: How many of them train.
        notes: Why files could not be read.
    """

    reports: tuple[Report, ...]
    files: int
    read: int
    scripts: int
    notes: tuple[str, ...] = ()


def check_many(
    files: Sequence[Found],
    options: Options,
    selection: Selection,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Many:
    """Check files, on several cores where there are enough of them.

    Args:
        files: The files, in the order in which they are reported.
        options: What is said about all of them.
        selection: Which findings are kept.
        jobs: Number of processes; None takes as many as there are cores, 1 none beside this one.
        progress: Called with the number of files done and of all.

    Raises:
        PreflightError: An option is wrong, or a worker died.
    """
    chunks = [files[start : start + CHUNK] for start in range(0, len(files), CHUNK)]
    workers = min(jobs or _cores(), len(chunks))
    pieces = (
        _spread(chunks, options, selection, workers) if workers > 1 else (_piece(c, options, selection) for c in chunks)
    )
    reports: list[Report] = []
    notes: list[str] = []
    read = scripts = done = 0
    for piece in pieces:
        for examined in piece:
            done += 1
            read += examined.read
            scripts += examined.trains
            if examined.report is not None:
                reports.append(examined.report)
            if examined.note is not None:
                notes.append(NOT_READ + examined.note)
        if progress is not None:
            progress(done, len(files))
    return Many(_without_repeats(reports), len(files), read, scripts, tuple(notes))


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _piece(files: Sequence[Found], options: Options, selection: Selection) -> list[Examined]:
    return [examine(found, options, selection) for found in files]


def _spread(
    chunks: Sequence[Sequence[Found]], options: Options, selection: Selection, workers: int
) -> Iterator[list[Examined]]:
    """Work on the pieces in processes and yield the results in the order of the pieces."""
    import multiprocessing
    import sys
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    from preflight.check.notices import all_rules

    all_rules()  # loaded once here, a forked process has them
    method = "fork" if sys.platform == "linux" else "spawn"
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context(method), initializer=_start_worker)
    try:
        futures = [pool.submit(_piece, chunk, options, selection) for chunk in chunks]
        for index, future in enumerate(futures):
            yield future.result()
            futures[index] = None  # type: ignore[call-overload]  # its result is the caller's now
    except BrokenProcessPool:
        raise PreflightError(
            "a process that was checking files was ended from outside", "--jobs 1 checks in one process"
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _start_worker() -> None:
    """Leave Ctrl-C to the parent, which ends the workers."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _without_repeats(reports: Sequence[Report]) -> tuple[Report, ...]:
    """Leave out modules whose findings were all told in the report of a script that imports them."""
    told = {identity(f) for report in reports if LIBRARY_NOTE not in report.notes for f in report.findings}
    return tuple(r for r in reports if LIBRARY_NOTE not in r.notes or not all(identity(f) in told for f in r.findings))


def identity(finding: Finding) -> Identity:
    """What makes two findings the same: scripts that share a module find the same there, each in its own words."""
    at = finding.location
    return finding.code, at.path, at.cell, at.line, at.column


def restrict(report: Report, keep: Collection[Identity], selection: Selection) -> Report | None:
    """A report with only some of its findings, judged again; None where nothing is left to say of a mere module."""
    kept = tuple(finding for finding in report.findings if identity(finding) in keep)
    if len(kept) == len(report.findings):
        return report
    if not kept and (LIBRARY_NOTE in report.notes or BROKEN_NOTE in report.notes):
        return None
    return msgspec.structs.replace(
        report,
        findings=kept,
        verdict=conclude(report, kept, selection),
        recommendations=_still_advised(report, kept),
    )


def _still_advised(report: Report, kept: Sequence[Finding]) -> tuple[Recommendation, ...]:
    """The recommendations without those that are the fix of a finding that is hidden now."""
    left = {change_of(finding) for finding in kept}
    hidden = {change_of(finding) for finding in report.findings} - left
    return tuple(item for item in report.recommendations if item.change not in hidden)


def worst_of(reports: Iterable[Report], default: Verdict) -> Verdict:
    """The worst verdict of several reports."""
    return min((report.verdict for report in reports), key=lambda verdict: VERDICT_ORDER[verdict], default=default)


def all_findings(reports: Iterable[Report]) -> list[Finding]:
    """The findings of several reports, each once, the surest of equal ones, in the fixed order."""
    found: dict[Identity, Finding] = {}
    for finding in sorted((finding for report in reports for finding in report.findings), key=sort_key):
        found.setdefault(identity(finding), finding)
    return list(found.values())


def combine(
    reports: Sequence[Report], paths: Sequence[str], inputs: dict[str, object], notes: Sequence[str] = ()
) -> Report:
    """One report over several: the worst verdict, all findings, and each report beneath."""
    if len(reports) == 1:
        return msgspec.structs.replace(reports[0], notes=(*reports[0].notes, *notes))
    worst = worst_of(reports, "UNKNOWN")
    return Report(
        schema=SCHEMA,
        command="check",
        tool=Tool("preflight", VERSION),
        verdict=worst,
        inputs={"paths": list(paths), **inputs},
        findings=tuple(all_findings(reports)),
        scripts=tuple(reports),
        notes=tuple(notes),
    )
