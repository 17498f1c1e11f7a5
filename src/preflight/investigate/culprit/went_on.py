"""A rank that told of an error and went on, right before the others were left waiting for it or were out of step with it."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.investigate.case.case import Event
from preflight.investigate.culprit.vote import Scene, Vote, before
from preflight.vocabulary.incident import Quote
from preflight.vocabulary.log import StepLine

STEPS = 2
"""An error so many steps before the end, or fewer, is right before it."""
FEWEST = 3


def votes(scene: Scene) -> Iterator[Vote]:
    """Vote for the few ranks that swallowed an error just before the failure, and for the one that is a step ahead of all others."""
    if not scene.failing:
        return
    last = _last_steps(scene)
    told = _swallowed(scene, last)
    if 0 < len(told) <= max(len(scene.case.people.ranks()) // 3, 1) and len(scene.case.people.seen) > 1:
        for rank, event in told.items():
            yield Vote(kind="went-on", rank=rank, strength=1.0 / len(told), quotes=(scene.case.quote(event.hit),),
                       text=f"told of an error and went on, right before the others failed: {event.title}")  # fmt: skip
    if len(last) < FEWEST:
        return
    (most, ahead), (usual, _) = sorted(((step, rank) for rank, (step, _) in last.items()), reverse=True)[:2]
    least = min(step for step, _ in last.values())
    # A rank that prints its steps now and then is not behind, and one that is far ahead counts otherwise.
    if most == usual + 1 and least == usual:
        yield Vote(kind="ahead-in-steps", rank=ahead, quotes=(last[ahead][1],),
                   text=f"came to step {most:,}, while all others stopped at step {usual:,}")  # fmt: skip


def _last_steps(scene: Scene) -> dict[int, tuple[int, Quote]]:
    last: dict[int, tuple[int, StepLine]] = {}
    for one in scene.case.steps:
        rank = scene.case.people.placed(one.who, one.file)[0]
        if rank is not None and one.step is not None and one.step >= last.get(rank, (-1, one))[0]:
            last[rank] = (one.step, one)
    return {
        rank: (step, Quote(scene.case.path(one.file), one.line, f"step {step} (its last one)"))
        for rank, (step, one) in last.items()
    }


def _swallowed(scene: Scene, last: dict[int, tuple[int, Quote]]) -> dict[int, Event]:
    """Return the exceptions that were told and outlived within the last steps, by rank."""
    failing = {event.place for event in scene.failing}
    first = scene.failing[0]
    found: dict[int, Event] = {}
    for event in scene.case.events:
        if event.raised is None and (event.signature is None or event.role != "root"):
            continue
        if event.place in failing or event.rank is None or event.rank not in last or event.step is None:
            continue
        near = last[event.rank][0] - event.step <= STEPS
        if near and not before(first, event) and event.category not in ("preemption", "none"):
            found.setdefault(event.rank, event)
    return found
