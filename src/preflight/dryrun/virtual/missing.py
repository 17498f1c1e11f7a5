"""What stands in for what is missing where the dry run is made, and a list of it for the report."""

from __future__ import annotations

from typing import Any

ASSUMED: dict[str, None] = {}
"""The lines, in the order of their first use."""


def assume(line: str) -> None:
    """Note that something stood in for what is missing."""
    ASSUMED.setdefault(line)


def install(job: dict[str, Any], progress: Any, rounds: Any) -> None:
    """Meet missing packages, files and pretrained weights."""
    from preflight.dryrun.virtual import batches, data, packages, pretrained, spread

    given = None
    if job.get("batch"):
        given = rounds.given = batches.Given(job["batch"], progress.owns, assume)
        given.rounds = rounds
        batches.install(given)
    packages.install(progress.owns, assume, job["root"], given is not None)
    data.install(progress.owns, assume, given)
    pretrained.install(job, assume)
    spread.install()


def lines(rounds: Any) -> list[str]:
    """Return the list for the report."""
    if rounds.given is not None and not rounds.given.used:
        assume("--batch was not used: no data set or loader was missing")
    return list(ASSUMED)
