"""What a rank of a launched job says where each keeps its report: a line, for hundreds say it at once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from preflight.cli.parts.writing import Writing, remark
from preflight.errors import UsageError

if TYPE_CHECKING:
    from preflight.vocabulary.report import Report


def folder_for(path: str) -> str:
    """Make the folder in which each rank keeps its report.

    Raises:
        UsageError: It cannot be made.
    """
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--save {path}: cannot be made: {error.strerror or error}", "a folder of your own") from None
    return path


def says_a_line(kept: str | None, look: Writing) -> bool:
    """Return whether a line is enough: the report is kept, others of the job keep theirs, and nobody asked for this one."""
    from preflight.investigate.doctor.snapshot import own_rank

    several = own_rank() is not None and os.environ.get("WORLD_SIZE") != "1"
    return bool(kept) and several and look.format == "text" and look.output is None and not look.verbose


def say_a_line(report: Report, rank: int | None, kept: str, compare: str, look: Writing) -> None:
    """Say how the look of one rank came out and where it is kept; the first rank says, too, how all are compared."""
    from preflight.cli.parts.run_folder import leave
    from preflight.report.parts.sentences import quick_line

    problem = leave(report)
    if problem is not None:
        remark(problem, look)
    said, who = quick_line(report), f"rank {rank}"
    remark(f"{said if who in said else f'{who}: {said}'}; kept in {kept}", look)
    if rank == 0:
        remark(f"once all have ended: {compare}", look)
