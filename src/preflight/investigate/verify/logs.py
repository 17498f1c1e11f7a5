"""The logs of one run as a trial."""

from __future__ import annotations

import math
from collections.abc import Sequence

from preflight.investigate.series.columns import by_step, step_seconds, tracks_of
from preflight.investigate.series.find import run_values
from preflight.investigate.series.speed import run_seconds
from preflight.investigate.verify.directions import KNOWN, LOSSES
from preflight.investigate.verify.trial import Trial
from preflight.vocabulary.incident import Incident
from preflight.vocabulary.log import Reading, StepLine
from preflight.vocabulary.verification import Outcome

_PLACES = ("consumed_tokens", "tokens", "consumed_samples")
_FAILED = ("crashed", "hung", "stalled")


def trial_of_logs(path: str) -> Trial:
    """Read the logs of a run, and say how it ended."""
    from preflight.catalog.signature_files import load_signatures
    from preflight.investigate.judge import judge
    from preflight.source.logs import read_logs

    known = load_signatures()
    reading = read_logs([path], known)
    return trial_of_reading(path, reading, judge(reading, known))


def trial_of_reading(name: str, reading: Reading, incident: Incident) -> Trial:
    """What was read of a run as a trial."""
    outcome: Outcome = "fail" if incident.state in _FAILED else "infra" if incident.state == "unknown" else "pass"
    if incident.category == "preemption":
        outcome = "infra"
    if outcome == "infra" and not reading.hits and reading.steps:
        # Nothing but steps, and no word of an end: a metric file.
        outcome = "pass"
    what = (incident.signature, incident.root_category, incident.symptom_category, incident.category)
    begun = [file.first_time for file in reading.files if file.first_time is not None]
    ended = [file.last_time for file in reading.files if file.last_time is not None]
    series, places = measured(reading.steps)
    return Trial(
        name=name,
        outcome=outcome,
        what=tuple(dict.fromkeys(one for one in what if one not in (None, "none", "cannot-tell")))
        if outcome == "fail"
        else (),
        steps=steps_of(reading.steps),
        hours=(max(ended) - min(begun)) / 3600 if begun and ended and max(ended) > min(begun) else None,
        order=min(begun, default=None),
        series=series,
        places=places,
    )


def steps_of(steps: Sequence[StepLine]) -> float | None:
    """How many steps were made: from the first that was told to the last."""
    numbers = [one.step for one in steps if one.step is not None]
    return float(max(numbers) - min(numbers) + 1) if numbers else None


def measured(steps: Sequence[StepLine]) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """The values of each metric whose direction is known, and where those of curves belong."""
    tracks = tracks_of(steps)
    series: dict[str, list[float]] = {}
    places: dict[str, list[float]] = {}
    seconds = run_seconds(tracks)
    if seconds is not None and (seconds.name == "seconds" or not any(step_seconds(one) is None for one in tracks)):
        if seconds.name == "seconds":
            series["seconds"] = seconds.numbers.tolist()
        else:
            series[seconds.name] = (1.0 / seconds.numbers).tolist()
    names = set().union(*(track.names() for track in tracks)) if tracks else set()
    for name in sorted(names - series.keys()):
        found = run_values(tracks, name) if name in KNOWN or name in LOSSES else None
        if found is None or not len(found.numbers):
            continue
        series[name] = found.numbers.tolist()
        if name in LOSSES and (found.steps >= 0).all():
            places[name] = found.steps.tolist()
            for along in _PLACES:
                taken = by_step(max(tracks, key=lambda one: len(one.lines)), along)
                if len(taken.numbers) == len(found.numbers) and all(map(math.isfinite, taken.numbers)):
                    places[name] = taken.numbers.tolist()
                    break
    return series, places
