"""What a server caught of one request: it answers the next one, and goes on."""

from __future__ import annotations

from collections.abc import Sequence

from preflight.investigate.case.case import Case, Event, by_file
from preflight.vocabulary.log import Place, Raised

_OF_A_REQUEST = "recovered.request-failed"
"""How servers say that one request failed, right above what it raised."""
_NEAR = 6
"""So many lines at most stand between that and the traceback."""
_OF_ONE_REQUEST = ("checkpoint", "data", "environment", "network", "other", "usercode")
"""What a request can raise and leave its server as it was; a card or a process without memory may be of no more use to the next."""
_WENT_ON = 12
"""So many lines behind it are of a server that went on; as one ends, it says fewer."""


def without_failed_requests(case: Case, failing: list[Event], recovered: list[Event]) -> list[Event]:
    """Return what failed without what servers caught of single requests and went on behind; unless a process ended with an error."""
    told = by_file((event for event in case.events if event.id == _OF_A_REQUEST), lambda one: one.hit.file)
    if not told or any(ending.code for ending in case.endings):
        return failing
    caught: set[Place] = set()
    for file, raised in by_file(case.raised, lambda one: one.hit.file).items():
        caught |= _below([event.hit.line for event in told.get(file, ())], raised)
    served = [
        event
        for event in failing
        if event.place in caught and event.category in _OF_ONE_REQUEST and case.lines_behind(event.hit) >= _WENT_ON
    ]
    recovered += served
    out = {id(event) for event in served}
    return [event for event in failing if id(event) not in out]


def _below(lines: Sequence[int], raised: Sequence[Raised]) -> set[Place]:
    """Return the places of what was raised right below some lines of a file, with all of its chain."""
    found: set[Place] = set()
    inside = False
    for one in sorted(raised, key=lambda one: one.hit.line):
        begins = one.begins if one.begins is not None else one.hit.line
        inside = inside or any(line < begins <= line + _NEAR for line in lines)
        if inside:
            found.add(one.hit.place)
        inside = inside and one.chained
    return found
