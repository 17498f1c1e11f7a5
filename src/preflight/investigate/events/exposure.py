"""Observed time: when a training ran, what happened in it and when it failed, on one line without gaps.

Time in which nothing ran is cut out: a stretch ends with a failure, an end, or the last event before the next start.
All jobs are laid one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from preflight.investigate.events.logger import TrainingEvent

BEGINS = ("start", "run-start", "run_start", "train_begin", "resume", "restart")
ENDS = ("end", "run-end", "run_end", "train_end")
FAILS = ("failure", "crash", "error", "failed")


class Observed(NamedTuple):
    """The observed time, in seconds from zero.

    Attributes:
        length: All of it.
        ends: Where each stretch ends.
        failures: Where it failed.
        clock: The time of the clock at each failure.
        events: Where the events of each type are.
        lasted: How long each stretch ran, and whether it ended with a failure.
        since: How far into its stretch, for every event: an event reaches no further than its stretch.
    """

    length: float
    ends: Any
    failures: Any
    clock: list[float]
    events: dict[str, Any]
    lasted: list[tuple[float, bool]]


def observe(events: Iterable[TrainingEvent]) -> Observed:
    """Lay the stretches of all jobs one after the other."""
    import numpy

    jobs: dict[str | None, list[TrainingEvent]] = {}
    for event in events:
        jobs.setdefault(event.job, []).append(event)
    at = 0.0
    ends: list[float] = []
    failures: list[float] = []
    clock: list[float] = []
    found: dict[str, list[float]] = {}
    lasted: list[tuple[float, bool]] = []
    for job in jobs.values():
        for stretch in _stretches(sorted(job, key=lambda one: one.timestamp)):
            begun, over = stretch[0].timestamp, stretch[-1].timestamp
            failed = False
            for event in stretch:
                place = at + event.timestamp - begun
                if event.event_type in FAILS:
                    failures.append(place)
                    clock.append(event.timestamp)
                    failed = True
                elif event.event_type not in BEGINS and event.event_type not in ENDS:
                    found.setdefault(event.event_type, []).append(place)
            at += over - begun
            ends.append(at)
            if over > begun:
                lasted.append((over - begun, failed))
    return Observed(
        at, numpy.array(ends), numpy.array(failures), clock, {k: numpy.array(v) for k, v in found.items()}, lasted
    )


def _stretches(events: Sequence[TrainingEvent]) -> list[list[TrainingEvent]]:
    """Cut the events of a job where it started anew.

    Where starts are told, every stretch begins with one; ranks that tell of the same start or failure within 30 s tell of one.
    Without any, the whole is one stretch: then a failure does not end what is observed, because nothing tells when it went on.
    """
    told = any(event.event_type in BEGINS for event in events)
    found: list[list[TrainingEvent]] = [[]]
    for event in events:
        current = found[-1]
        if event.event_type in FAILS and any(
            one.event_type in FAILS and event.timestamp - one.timestamp < 30 for one in reversed(current)
        ):
            continue
        starts = event.event_type in BEGINS
        if (
            told
            and starts
            and current
            and not (current[0].event_type in BEGINS and event.timestamp - current[0].timestamp < 30)
        ):
            found.append([])
        elif (
            told
            and current
            and any(one.event_type in FAILS or one.event_type in ENDS for one in current[-1:])
            and not starts
        ):
            continue
        found[-1].append(event)
    return [one for one in found if one]


def after(places: Any, window: float, ends: Any) -> tuple[Any, Any]:
    """The union of the times after events: where each stretch of it begins and ends; it never reaches into the next run."""
    import numpy

    if not len(places):
        return numpy.empty(0), numpy.empty(0)
    begins = numpy.sort(places)
    last = ends[numpy.minimum(numpy.searchsorted(ends, begins, side="left"), len(ends) - 1)]
    stops = numpy.minimum(begins + window, last)
    reach = numpy.maximum.accumulate(stops)
    fresh = numpy.concatenate([[True], begins[1:] > reach[:-1]])
    first = numpy.flatnonzero(fresh)
    return begins[first], numpy.maximum.reduceat(stops, first)


def inside(places: Any, begins: Any, stops: Any) -> Any:
    """Which places lie in a union: after its beginning, and at its end at the latest."""
    import numpy

    if not len(begins):
        return numpy.zeros(places.shape, dtype=bool)
    at = numpy.searchsorted(begins, places, side="left") - 1
    return (at >= 0) & (places <= stops[numpy.maximum(at, 0)])
