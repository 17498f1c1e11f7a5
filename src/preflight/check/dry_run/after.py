"""What a report takes from a dry run that is over: the time of a step, what would fit, notes, and files for other tools."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from preflight.check.asked import Device, Options
from preflight.check.context import Context
from preflight.check.dry_run import added, fit, step_time
from preflight.source.script import Script
from preflight.vocabulary.measured import Measured
from preflight.vocabulary.profile import Profile
from preflight.vocabulary.roofline import Roofline


class AfterRun(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of a report.

    Attributes:
        profile: What was seen, without what only rules look into.
        step: The section on time, or None where no whole step was seen. roofline: Its operators.
        measured: What changes did when the script was run again with them, where that was wanted.
        notes: How the run went. later: What else there is to know of the time and of the further runs.
    """

    profile: Profile
    step: dict[str, Any] | None
    roofline: Roofline | None
    measured: Measured | None
    notes: tuple[str, ...]
    later: tuple[str, ...]


def after_run(
    script: Script, options: Options, device: Device, context: Context, profile: Profile, until: float
) -> AfterRun:
    """Put together what a dry run gives beside its memory, and write the files that were asked for.

    Args:
        script: The script that ran.
        options: What is said about the check.
        device: The virtual GPU.
        context: What reading the script gave.
        profile: What was seen.
        until: When further runs have to be over, in seconds of the monotonic clock.

    Raises:
        PreflightError: A file cannot be written.
    """
    launch, facts = context.launch, context.facts
    measured = None
    if fit.wanted(profile, options):
        job = added.job_of(script, context.reading, options, device, launch)
        measured = fit.measure(job, profile, facts, max(0.0, until - time.monotonic()))
    step = step_time.step_of(profile, device.gpu, launch, facts)
    _write(script, options, device, context, profile, step is not None)
    return AfterRun(
        profile=added.reported(profile),
        step=step,
        roofline=step_time.roofline_of(profile, device.gpu) if step is not None else None,
        measured=measured,
        notes=tuple(added.notes_of(profile, facts, device)),
        later=(
            *(step_time.note_of(profile, device.gpu, launch) if step is not None else ()),
            *(fit.notes_of(measured) if measured is not None else ()),
        ),
    )


def _write(
    script: Script, options: Options, device: Device, context: Context, profile: Profile, whole_step: bool
) -> None:
    """Write the timeline of a step and the expectations, where they were asked for."""
    if options.chrome_trace and whole_step:
        step_time.write_trace(options.chrome_trace, profile, device.gpu, context.launch)
    if options.expectations:
        from preflight.check.dry_run.expected import expectations
        from preflight.check.files.text_file import write_whole
        from preflight.vocabulary.invariant import encoded

        write_whole(options.expectations, encoded(expectations(profile, script.path)))
