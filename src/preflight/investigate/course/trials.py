"""Trials of a search for settings that fail, where the search goes on with the next one."""

from __future__ import annotations

import re

from preflight.investigate.case.case import Event
from preflight.investigate.course.last_lines import LastLines
from preflight.vocabulary.log import Raised

_NEXT = ("progress.search-trial",)
_FAILED = re.compile(r"\bTrial \S+ failed with parameters: ")
"""How Optuna tells that an objective raised; whether it goes on shows what stands behind."""
_RUNNER = re.compile(r"[/\\]optuna[/\\]")


def of_a_passed_trial(event: Event, last: Raised | None, told: LastLines) -> bool:
    """Return whether an event is what one trial of a search failed with, and another one was done behind it.

    Args:
        event: What failed.
        last: The last exception of its chain; None where none was raised.
        told: What stands last in each file.
    """
    if not told.done(event.hit.file, event.hit.line + 1, _NEXT):
        return False
    if last is None:
        return _FAILED.search(event.hit.text) is not None
    # Nobody caught what goes through the whole of a script; what Optuna caught it prints from its own call on.
    return bool(last.frames) and _RUNNER.search(last.frames[0].path) is not None
