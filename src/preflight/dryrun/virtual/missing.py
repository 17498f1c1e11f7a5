"""What stands in for what is missing where the dry run is made, and a list of it for the report."""

from __future__ import annotations

from typing import Any

ASSUMED: dict[str, None] = {}
"""The lines, in the order of their first use."""


def assume(line: str) -> None:
    """Note that something stood in for what is missing."""
    ASSUMED.setdefault(line)


def install(job: dict[str, Any], progress: Any) -> None:
    """Meet missing packages, files and pretrained weights."""
    from preflight.dryrun.virtual import data, packages, pretrained, spread

    packages.install(progress.owns, assume, job["root"])
    data.install(progress.owns, assume)
    pretrained.install(job, assume)
    spread.install()
