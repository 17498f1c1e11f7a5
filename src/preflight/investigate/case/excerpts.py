"""Whether what was read is an excerpt, in which nobody must have a line."""

from __future__ import annotations

from collections.abc import Collection

from preflight.investigate.case.case import Case

_OF_WHOLE_LOGS = ("elastic.", "end.", "exit.")
"""What launchers say, and tell of ends."""


def is_excerpt(case: Case, files: Collection[int]) -> bool:
    """Return whether all that ranks say stands in one file, in which no step, no beginning, no end and no launcher is told of."""
    if len(files) > 1 or case.steps or case.endings:
        return False
    whole = (
        event.id.startswith(_OF_WHOLE_LOGS) or (event.signature is not None and event.signature.marks is not None)
        for event in case.events
    )
    return not any(whole)
