"""What the failures cost: work that was done twice, time in which nothing was done, and how often it fails."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from preflight.investigate.culprit.vote import Scene
from preflight.vocabulary.incident import Loss
from preflight.vocabulary.quantity import format_duration, format_seconds, format_share

HOUR = 3600.0
LEVEL = 0.95
LEAST = 60.0
"""Shorter runs cost nothing that is worth a rate."""


class Span(NamedTuple):
    """An attempt by the clock: when it began, when it made its first and last step, when it ended; and those steps."""

    began: float
    stepped: float | None
    stopped: float | None
    ended: float
    first: int | None
    last: int | None
    seconds: float | None
    failed: bool
    saved: int | None


def loss_of(scenes: Sequence[Scene], world: int | None) -> Loss | None:
    """Return what was lost; None where nothing failed."""
    if not any(scene.failing for scene in scenes):
        return None
    spans = [span for scene in scenes if (span := _span(scene)) is not None]
    if len(spans) < len(scenes):
        return Loss(reason="not all attempts bear times" if len(scenes) > 1 else "the logs bear no times")
    if any(scene.case.steps and span.stepped is None for scene, span in zip(scenes, spans, strict=True)):
        return Loss(
            reason="not all steps bear times" if len(scenes) == 1 else "the steps of some attempts bear no times"
        )
    total = spans[-1].ended - spans[0].began
    if total < LEAST:
        return Loss(reason=f"the logs span {'less than a minute' if total > 0 else 'no time'}")
    told: list[str] = []
    again, steps = _again(spans, told)
    idle = _idle(spans, told)
    failures = sum(span.failed for span in spans)
    between = mean_between(total / HOUR, failures)
    if between is not None:
        told.append(
            f"{failures} failure{'s' if failures > 1 else ''} in {total / HOUR:.2f} hours: one in {between[0]:.3g} hours "
            f"({between[1]:.3g} to {between[2]:.3g} with {format_share(LEVEL)} confidence, Poisson)"
        )
    lost = again + idle
    share = max(0.0, 1.0 - lost / total)
    told.append(
        f"{format_share(share, 1)} of the time went into steps that count, or into getting there for the first time"
    )
    if world is None:
        return Loss(steps_lost=steps, effective_share=share, mean_hours_between_failures=between, arithmetic=tuple(told),
                    reason="the number of GPUs is not known")  # fmt: skip
    hours = lost / HOUR * world
    told.insert(
        0, f"{hours:.3g} GPU-hours lost: ({again:,.0f} s of steps + {idle:,.0f} s without steps) x {world} / 3600"
    )
    return Loss(gpu_hours_lost=hours, steps_lost=steps, effective_share=share, mean_hours_between_failures=between,
                arithmetic=tuple(told))  # fmt: skip


def _span(scene: Scene) -> Span | None:
    case = scene.case
    stepped = sorted(
        (time, one.step)
        for one in case.steps
        if one.step is not None
        and (time := case.corrected(one.time, case.people.placed(one.who, one.file)[1])) is not None
    )
    # What the kernel said hours before belongs to no attempt's span.
    others = [event.time for event in case.events if event.time is not None and event.role != "confirmation"]
    # A line that tells of a wait was printed when the wait was over.
    others += [
        time
        for event in case.events
        if event.hit.time is not None and (time := case.corrected(event.hit.time, event.node)) is not None
        if event.role != "confirmation"
    ]
    times = [*(time for time, _ in stepped), *others]
    if not times:
        return None
    saved = [
        number
        for event in case.events
        if event.signature is not None and event.signature.marks == "checkpoint"
        if isinstance(number := event.hit.fields.get("step"), int)
    ]
    return Span(
        began=min(times), ended=max(times), failed=bool(scene.failing),
        stepped=stepped[0][0] if stepped else None, stopped=stepped[-1][0] if stepped else None,
        first=min((step for _, step in stepped), default=None), last=max((step for _, step in stepped), default=None),
        seconds=_seconds(stepped), saved=max(saved, default=None),
    )  # fmt: skip


def _seconds(stepped: Sequence[tuple[float, int]]) -> float | None:
    """Return how long a step takes: the median over the lines of further steps."""
    from statistics import median

    first: dict[int, float] = {}
    for time, step in stepped:
        first.setdefault(step, time)
    numbers = sorted(first)
    gaps = [(first[other] - first[one]) / (other - one) for one, other in pairwise(numbers)]
    return median(gaps) if gaps else None


def _again(spans: Sequence[Span], told: list[str]) -> tuple[float, int | None]:
    """Return the seconds and the number of steps that were made and then made again, or will have to be."""
    seconds, steps, known = 0.0, 0, False
    for number, span in enumerate(spans):
        if not span.failed or span.last is None or span.seconds is None:
            continue
        later = spans[number + 1] if number + 1 < len(spans) else None
        resumed = later.first if later is not None else span.saved + 1 if span.saved is not None else None
        if resumed is None:
            continue
        known = True
        count = max(span.last - resumed + 1, 0)
        if count:
            told.append(
                f"{count:,} steps of {format_seconds(span.seconds)} {'were' if later else 'will be'} made again, from {resumed:,}"
            )
        seconds += count * span.seconds
        steps += count
    return seconds, steps if known else None


def _idle(spans: Sequence[Span], told: list[str]) -> float:
    """Return the seconds between the last step of a failed attempt and the first step of the next, or its end."""
    total = 0.0
    for number, span in enumerate(spans):
        if not span.failed:
            continue
        since = span.stopped if span.stopped is not None else span.began
        later = spans[number + 1] if number + 1 < len(spans) else None
        until = (later.stepped or later.began) if later is not None else span.ended
        wait = max(until - since - (span.seconds or 0.0), 0.0)
        if wait > 0:
            what = "until the first step of the next attempt" if later is not None else "until the end"
            after = f"after step {span.last:,}" if span.last is not None else f"of attempt {number}"
            told.append(f"{format_duration(wait)} passed without a step {after}, {what}")
        total += wait
    return total


def mean_between(hours: float, failures: int) -> tuple[float, float, float] | None:
    """Return the mean time between failures and its exact Poisson interval, in hours; None where nothing failed."""
    if failures < 1 or hours <= 0:
        return None
    tail = (1 - LEVEL) / 2
    high = _rate(failures, tail, at_most=True)
    low = _rate(failures, tail, at_most=False)
    return hours / failures, hours / high, hours / low


def _rate(count: int, tail: float, *, at_most: bool) -> float:
    """Return the mean of a Poisson count at which so many or fewer (or more) are as rare as a tail."""
    from math import exp

    def rarity(mean: float) -> float:
        term = exp(-mean)
        below = 0.0
        for number in range(count + 1 if at_most else count):
            below += term
            term *= mean / (number + 1)
        return below if at_most else 1.0 - below

    low, high = 0.0, 10.0 + 3.0 * count
    for _ in range(200):
        middle = (low + high) / 2
        falls = rarity(middle) > tail
        if falls == at_most:
            low = middle
        else:
            high = middle
    return (low + high) / 2
