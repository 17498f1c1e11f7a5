"""Follow logs that grow: the same judgement again and again, and one alarm when something fails and stays failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from preflight.investigate.diagnose import report_of
from preflight.vocabulary.report import Report
from preflight.vocabulary.signature import Signature

if TYPE_CHECKING:
    from preflight.source.logs.following import Follower

# Between two looks at the files.
EVERY = 0.2
# A failure that was there for so long, and at two looks, is told: what is mended at once is not, and is not told.
HOLDS = 0.5
# The report is given when the logs of a run that failed, or has ended, have not grown for so long.
QUIET = 5.0


def follow(
    paths: Sequence[str],
    signatures: Sequence[str | Path] = (),
    *,
    alarm: Callable[[Report], None],
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    quiet: float = QUIET,
) -> Report:
    """Judge logs while they grow, until the run has failed or ended and its logs are still; or until it is interrupted.

    Args:
        paths: Files and folders; files that come later are found.
        signatures: The user's catalog folders.
        alarm: Called once, when something has failed and is not mended.
        now: The clock.
        sleep: Waits.
        quiet: Seconds without growth after which a run that failed or ended is done with.

    Returns:
        The report of everything that was read. While logs grow a sample of their steps is judged; in the end files of which
        steps were left out are read once more, so that the report rests on what a reading of the finished files rests on.
        Where it cannot (it was interrupted, a file is gone or was begun anew), the report says that it rests on the sample.
        Where it is interrupted between two looks, the files are looked at once more.
    """
    from preflight.catalog.signature_files import load_signatures
    from preflight.source.logs.following import Follower

    known = load_signatures(tuple(signatures))
    follower = Follower(list(paths), known)
    _warm(known)
    report = report_of(follower.reading(), known, paths)
    failed: float | None = None
    told, grown, cost, looking = False, now(), 0.0, False
    try:
        while True:
            begun, looking = now(), True
            new = follower.poll()
            looking = False
            if new:
                grown = begun
            if new:
                report = report_of(follower.reading(), known, paths)
                cost = now() - begun
            failed = (failed if failed is not None else begun) if report.verdict == "NO-GO" else None
            if failed is not None and not told and begun - failed >= HOLDS:
                told = True
                alarm(report)
            if _done(report) and now() - grown >= quiet and (told or failed is None):
                return _whole(follower, report, known, paths)
            # A judgement that takes long is made less often, half of a core at most; but a failure does not wait to be told.
            sleep(max(EVERY, cost if new and (failed is None or told) else 0.0))
    except KeyboardInterrupt:
        if not looking:  # what came since the last look counts, too; within a look, what was taken in is not known
            _look_at_the_rest(follower)
            report = report_of(follower.reading(), known, paths)
        return _sampled(report) if follower.thinned else report


def _look_at_the_rest(follower: Follower) -> None:
    """Take in what the files hold now, also lines for whose end a look would wait."""
    from preflight.source.logs.following import HELD

    at = time.monotonic()
    follower.poll(at)
    follower.poll(at + HELD)


def _whole(follower: Follower, report: Report, signatures: Sequence[Signature], paths: Sequence[str]) -> Report:
    """Return the report of the files as they are in the end, with all their steps."""
    from preflight.source.logs import read_logs

    if not follower.thinned:
        return report
    if not follower.there:
        return _sampled(report)
    return report_of(read_logs(paths, signatures), signatures, paths)


def _sampled(report: Report) -> Report:
    """Return a report that says that not all steps were judged."""
    note = "of the steps, an even sample and the last ones of each file were judged; preflight investigate without --follow reads all"
    return msgspec.structs.replace(report, notes=(*report.notes, note))


def _warm(signatures: Sequence[Signature]) -> None:
    """Read what only a failure needs, remedies and rules, before there is one."""
    from preflight.investigate.judge import judge
    from preflight.vocabulary.log import Hit, LogFile, Raised, Reading

    hit = Hit(signature="", file=0, line=1, offset=0, text="RuntimeError: warm")
    raised = Raised(exception="RuntimeError", message="warm", frames=(), hit=hit)
    judge(Reading(files=(LogFile(index=0, path="-", kind="text", lines=1),), raised=(raised,)), signatures)


def _done(report: Report) -> bool:
    """Return whether nothing more is to be expected of a run."""
    incident = report.incident
    return incident is not None and (report.verdict == "NO-GO" or incident.state == "ended")
