"""What happens in every step of a dry run, and what only now and then."""

from __future__ import annotations

from collections.abc import Iterable

from preflight.check.observed.run import Run
from preflight.vocabulary.seen import Observation


def in_every_step(run: Run, items: Iterable[Observation]) -> dict[str, int]:
    """Return the lines at which something was seen in every training step, with how often per step.

    The first step is left out, in which much is set up; a run needs two steps for an answer. What comes after the last
    step counts to none of them.
    """
    steps = range(1, run.profile.steps)
    counts: dict[str, dict[int, int]] = {}
    for item in items:
        by_step = counts.setdefault(item.line, {})
        by_step[item.step] = by_step.get(item.step, 0) + item.count
    # What a loop does after its step is counted to the next one: the last of them may be missing at the end.
    return {
        line: min(by_step[step] for step in steps)
        for line, by_step in counts.items()
        if len(steps) and all(step in by_step for step in steps)
    }
