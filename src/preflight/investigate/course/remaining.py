"""What remains of the events of a run as its failure: not what was caught, what came again, what only guesses."""

from __future__ import annotations

from collections.abc import Sequence

from preflight.investigate.case.case import Case, Event
from preflight.investigate.case.events import order
from preflight.vocabulary.signature import Category

_CAUGHT: tuple[Category, ...] = ("usercode", "data")
_AGAIN = 5
_LONG = 200
"""So many kinds of such lines, over so many lines of a file: what one of them names ended nothing."""


def with_again(failing: list[Event], recovered: list[Event]) -> list[Event]:
    """Return what failed with what had seemed to be mended and came again: numbers that are none do not mend themselves.

    Where the steps show that none was a number since, no line that says so was mended, though the run came to its end.
    """
    last = {(event.id, event.rank) for event in failing if event.category == "numerical" and event.role == "root"}
    since = min((event.step or 0 for event in failing if event.id == "series.nonfinite"), default=None)
    back = [
        event
        for event in recovered
        if (event.id, event.rank) in last
        or (since is not None and _says_nan(event) and event.step is not None and event.step >= since)
    ]
    for event in back:
        recovered.remove(event)
    return sorted((*back, *failing), key=order) if back else failing


def _says_nan(event: Event) -> bool:
    return event.category == "numerical" and event.role == "root" and "nan" in event.id


def without_guesses(failing: list[Event]) -> list[Event]:
    """Return what failed without lines that nothing took, unless they are all that names a cause."""
    sure = [event for event in failing if not event.guessed]
    if any(event.role == "root" and not (only_ended(event) and event.category == "other") for event in sure):
        return sure
    return failing


def without_caught(events: Sequence[Event]) -> list[Event]:
    """Return the events without lines that name an exception again and again over a long part of a file: they were caught."""
    lines: dict[int, list[int]] = {}
    for event in events:
        if event.guessed and event.category in _CAUGHT:
            lines.setdefault(event.hit.file, []).append(event.hit.line)
    caught = {file for file, told in lines.items() if len(told) >= _AGAIN and max(told) - min(told) >= _LONG}
    return [event for event in events if not (event.guessed and event.category in _CAUGHT and event.hit.file in caught)]


def without_teardown_alone(case: Case, failing: list[Event]) -> list[Event]:
    """Return nothing where all that is left is how a run winds down after it has done what it should."""
    deciding = [event for event in failing if event.role != "teardown"]
    bad = [ending for ending in case.endings if ending.code not in (0, None)]
    return failing if deciding or bad or any(event.category != "none" for event in failing) else []


def only_ended(event: Event) -> bool:
    """Return whether an event tells nothing but how a process ended."""
    return event.id.startswith(("exit.", "end.", "elastic."))
