"""Follow logs that grow: the same judgement again and again, and one alarm when something fails and stays failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from preflight.investigate.diagnose import report_of
from preflight.vocabulary.report import Report
from preflight.vocabulary.signature import Signature

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
        The report of everything that was read.
    """
    from preflight.catalog.signature_files import load_signatures
    from preflight.source.logs.following import Follower

    known = load_signatures(tuple(signatures))
    follower = Follower(list(paths), known)
    _warm(known)
    report = report_of(follower.reading(), known, paths)
    failed: float | None = None
    told, grown, cost = False, now(), 0.0
    try:
        while True:
            begun = now()
            new = follower.poll()
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
                return report
            # A judgement that takes long is made less often, half of a core at most; but a failure does not wait to be told.
            sleep(max(EVERY, cost if new and (failed is None or told) else 0.0))
    except KeyboardInterrupt:
        return report


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
