"""Whether what was read is an excerpt, in which nobody must have a line."""

from __future__ import annotations

from collections.abc import Collection

from preflight.investigate.case.case import Case

_OF_WHOLE_LOGS = ("elastic.", "end.", "exit.")
"""What launchers say, and tell of ends."""
_BEHIND = 20
"""So many lines before the first one of a failure were printed by a program as it began and went on: what is quoted of a
failure begins with it."""


def is_excerpt(case: Case, files: Collection[int]) -> bool:
    """Return whether all that ranks say stands in one file, in which no step, no beginning, no end and no launcher is told of."""
    if len(files) > 1 or case.steps or case.endings or _went_on_before(case):
        return False
    whole = (
        event.id.startswith(_OF_WHOLE_LOGS) or (event.signature is not None and event.signature.marks is not None)
        for event in case.events
    )
    return not any(whole)


def _went_on_before(case: Case) -> bool:
    """Return whether a program told how many ranks it has, and printed lines for a while before anything failed."""
    if case.reading.world_size is None:
        return False
    failing = [event for event in case.events if event.role in ("root", "cascade") and event.hit.line]
    begins = (
        event.raised.begins if event.raised is not None and event.raised.begins is not None else event.hit.line
        for event in failing
    )
    return min(begins, default=0) > _BEHIND
