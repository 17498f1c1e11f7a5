"""What goes together with failures, of events, jobs or both."""

from __future__ import annotations

from collections.abc import Sequence

from preflight.investigate.events.exposure import FAILS, observe
from preflight.investigate.events.jobs import Job, compare_jobs
from preflight.investigate.events.logger import TrainingEvent
from preflight.investigate.events.precursors import WINDOWS, needed, precursors
from preflight.investigate.events.timing import LEAST, periods, since_start
from preflight.vocabulary.association import Association, Associations, Timing
from preflight.vocabulary.quantity import format_share
from preflight.vocabulary.report import SCHEMA, Report, Tool, Verdict
from preflight.vocabulary.version import VERSION


def analyse(
    events: Sequence[TrainingEvent] = (), jobs: Sequence[Job] = (), *, windows: Sequence[float] = WINDOWS, seed: int = 0
) -> Associations:
    """Say what goes together with failures; under five failures nothing is said.

    Args:
        events: Events of trainings, their failures among them.
        jobs: Jobs with how they ended.
        windows: For how long after an event a failure counts, in seconds; all of them are tried and corrected for.
        seed: Of the random turns.
    """
    observed = observe(events) if events else None
    found: list[Association] = []
    timing: list[Timing] = []
    reasons = []
    power = None
    failures = 0
    if observed is not None:
        failures = len(observed.failures)
        if failures < LEAST or observed.length <= 0:
            reasons.append(_too_few(failures, sum(event.event_type in FAILS for event in events)))
        else:
            found += precursors(observed, windows, seed)
            timing = [one for one in (since_start(observed.lasted, seed), periods(observed.clock)) if one is not None]
            power = _power(found, failures)
    bad = sum(job.failed for job in jobs)
    if jobs:
        failures += bad
        if bad < LEAST or bad == len(jobs):
            reasons.append(
                f"not enough data: {bad} of {len(jobs)} jobs failed, {LEAST} are needed at least, and good ones beside them"
            )
        else:
            found += compare_jobs(jobs)
    if observed is None and not jobs:
        reasons.append("not enough data: there is no event, and no job that says how it ended")
    return Associations(
        failures=failures,
        hours=observed.length / 3600 if observed is not None else None,
        jobs=len(jobs) if jobs else None,
        tests=len(found),
        associations=tuple(sorted(found, key=lambda one: (one.q, one.p))),
        timing=tuple(timing),
        reason="; ".join(reasons) if reasons and not found else None,
        power=power,
        notes=tuple(reasons) if found else (),
    )


def _too_few(failures: int, told: int) -> str:
    """Return that the failures are too few, and why not all that were told of count."""
    said = f"not enough data: {failures} failure{'s' * (failures != 1)} in the events, {LEAST} are needed at least"
    if told > failures:
        said += f"; {told - failures} more were told of while nothing was observed: after a failure it is from the next start on"
    return said


def _power(found: Sequence[Association], failures: int) -> str | None:
    """What could have been found: for the event that covers the middle share of the time."""
    shares = sorted(one.exposure[0] / sum(one.exposure) for one in found)
    if not shares:
        return None
    share = shares[len(shares) // 2]
    count = needed(share, len(found))
    have = "enough" if failures >= count else f"there are {failures}"
    return (
        f"an event that covers {format_share(share)} of the time and makes failures five times as frequent is found four times out of five "
        f"with {count} failures ({have})"
    )


def report_of(found: Associations, inputs: dict[str, object]) -> Report:
    """The report: NO-GO where something is associated with failures, UNKNOWN where there is not enough data to say."""
    associated = any(one.associated for one in found.associations) or any(one.found for one in found.timing)
    verdict: Verdict = "UNKNOWN" if found.reason is not None else "NO-GO" if associated else "GO"
    return Report(
        schema=SCHEMA,
        command="investigate events",
        tool=Tool("preflight", VERSION),
        verdict=verdict,
        inputs=inputs,
        associations=found,
        notes=found.notes,
    )
