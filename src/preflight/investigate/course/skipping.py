"""Steps that mixed precision left out one after the other: more of them than any search for a first loss scale takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from preflight.investigate.case.case import Case, Event
from preflight.vocabulary.incident import Quote, SeriesFinding
from preflight.vocabulary.log import StepLine

SKIPPED = ("numerical.loss-scale-lowered", "numerical.scale-at-minimum", "numerical.scale-below-one")
MOST_AT_FIRST = 32
"""A scale begins at 2^32 at most: by so many halvings it is at one, and a run that is sound has made a step."""
NEARLY_ALL = 0.9
MADE_AGAIN = 2
"""More lines of steps behind the row than this are of a run that goes on."""


def skipped_in_a_row(case: Case) -> SeriesFinding | None:
    """Return that steps were left out one after the other, without one that was made between them."""
    told: dict[tuple[int, int | None], list[Event]] = {}
    for event in case.events:
        if event.id in SKIPPED and event.hit.file >= 0:
            told.setdefault((event.hit.file, event.rank), []).append(event)
    for (file, rank), events in told.items():
        if len(events) <= MOST_AT_FIRST:
            continue
        steps = [one for one in case.every_step if one.file == file and one.who.rank in (rank, None)]
        steps.sort(key=lambda one: one.line)
        for run in _rows(sorted(events, key=lambda one: one.hit.line), steps):
            if (count := _counted(run, steps)) > MOST_AT_FIRST:
                return _finding(case, run, count, made_after=sum(one.line > run[-1].hit.line for one in steps))
    return None


def _finding(case: Case, run: Sequence[Event], count: int, *, made_after: int) -> SeriesFinding:
    return SeriesFinding(
        kind="scale-collapse",
        series="loss_scale",
        text=f"{count} steps were left out one after the other for gradients that are not finite, and none was made between them",
        first_step=run[0].step,
        last_step=run[-1].step,
        false_alarms=0.0,
        values={"skipped": count, "recovered": made_after > MADE_AGAIN},
        quote=Quote(case.path(run[0].hit.file), run[0].hit.line, run[0].hit.text),
    )


def _rows(events: Sequence[Event], steps: Sequence[StepLine]) -> Iterator[list[Event]]:
    """Yield rows of skipped steps; a line of a step between two of them may be of one that was skipped as well."""
    run: list[Event] = []
    at = 0
    for event in events:
        between = 0
        while at < len(steps) and steps[at].line < event.hit.line:
            at, between = at + 1, between + 1
        if between > 1 and run:
            yield run
            run = []
        run.append(event)
    if run:
        yield run


def _counted(run: Sequence[Event], steps: Sequence[StepLine]) -> int:
    """Return how many steps were skipped: several ranks may tell of the same one, and steps that were made may lie between.

    Without numbers of steps, lines that tell the same scale at the same time are of one step.
    """
    first, last = run[0].hit.line, run[-1].hit.line
    numbers = {one.step for one in steps if one.step is not None and first <= one.line <= last}
    if len(numbers) > 1:
        went_by = max(numbers) - min(numbers) + 1
        return min(went_by, len(run)) if len(run) >= NEARLY_ALL * went_by else 0
    return len({(round(one.hit.time or 0.0), *sorted(map(str, one.hit.fields.items()))) for one in run})
