"""Another start in the same file: what nobody caught ended the one before it."""

from __future__ import annotations

from bisect import bisect_right

from preflight.investigate.case.case import Case, Event
from preflight.vocabulary.log import Raised

DONE = ("progress.checkpoint-saved", "progress.evaluation", "progress.results-saved", "progress.epoch-took")
"""What is told of work that was done, with or without a number of its step."""
_KEPT_BACK = 2 * 8192
"""Bytes: a program whose output goes to a file has its last lines written as it ends, a buffer full of them and no more."""
_STEPS = 20
_WORKS = 3
"""So many steps, or so many pieces of longer work, are a training."""


def begun_anew(case: Case, event: Event, last: Raised | None) -> bool:
    """Return whether nobody caught an exception and its file tells of much more training behind it: of another start.

    What a program printed before it ended and its system writes only then is less than that. Where several ranks speak it may be
    the others that went on.

    Args:
        case: What was read.
        event: What the exception tells.
        last: The last exception of its chain.
    """
    file = case.files.get(event.hit.file)
    if file is None or len(case.people.seen) > 1 or file.size - event.hit.offset < _KEPT_BACK:
        return False
    if last is None or not last.frames or last.frames[0].function != "<module>" or last.ignored:
        return False
    steps = case.steps_in.get(event.hit.file, [])
    if len(steps) - bisect_right(steps, event.hit.line, key=lambda one: one.line) >= _STEPS:
        return True
    done = [one for one in case.events if one.id in DONE and one.hit.file == event.hit.file]
    return sum(one.hit.line > event.hit.line for one in done) >= _WORKS
