"""What stands in for what is missing where the dry run is made, and a list of it for the report."""

from __future__ import annotations

from typing import Any

from preflight.dryrun.virtual.absent import batches, blame, checkpoints, data, drawn, packages, pretrained, triton
from preflight.dryrun.virtual.engine import kernels, spread
from preflight.dryrun.virtual.guard import programs

ASSUMED: dict[str, None] = {}
"""The lines, in the order of their first use."""


def assume(line: str) -> None:
    """Note that something stood in for what is missing."""
    ASSUMED.setdefault(line)


def install(job: dict[str, Any], progress: Any, rounds: Any, overlay: Any) -> None:
    """Meet missing packages, files, programs and pretrained weights.

    Args:
        job: What is run.
        progress: Says which files are the person's own code.
        rounds: Gives loops and loaders their items.
        overlay: The scratch folder.
    """
    given = None
    if job.get("batch"):
        given = rounds.given = batches.Given(job["batch"], progress.owns, assume)
        given.rounds = rounds
        batches.install(given)
    drawn.install(job.get("networks"))
    triton.install()
    packages.install(progress.owns, assume, job["root"], given is not None)
    programs.install(progress.owns, assume)
    data.install(progress.owns, assume, overlay, job["arguments"], given)
    checkpoints.install(progress.owns, assume)
    pretrained.install(job, assume)
    spread.install()


def lines(rounds: Any) -> list[str]:
    """Return the list for the report."""
    unused = rounds.given is not None and not rounds.given.used
    return [
        *ASSUMED,
        *blame.caught(),
        *kernels.lines(),
        *(["--batch was not used: no data set or loader was missing"] if unused else []),
    ]
