"""What is said of a run in whose lines nothing failed: its state, its category, what makes it slow, what cannot be known."""

from __future__ import annotations

import math
from collections.abc import Sequence

from preflight.investigate.case.case import Case
from preflight.investigate.case.lost import lost_logs
from preflight.investigate.case.people import People
from preflight.investigate.course.shown import category_of_phase, left_slower, slow, slow_ranks
from preflight.investigate.course.state import state_of
from preflight.investigate.culprit.vote import Scene
from preflight.vocabulary.incident import Culprit, NextStep, Reason, RunState, SeriesFinding, Suspect
from preflight.vocabulary.signature import Category

_SLOWER = "the steps became slower for good, and the log does not tell whether that is a fault or other work"
_UNTOLD = {
    False: "no line of what was given tells how the run is",
    True: "the steps do not tell whether the card, the settings or the code of the rank makes it slow",
}


def cut_short(case: Case) -> str | None:
    """Return what cannot be known because a log is damaged, ends early or cannot be read; None where all of them are whole."""
    lost = lost_logs(case.reading.files)
    if not lost:
        return None
    more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
    first = lost[0]
    if first.kind == "text":
        return f"nothing failed as far as {first.path}{more} could be read; what came behind the damage is not known"
    return f"nothing failed in what could be read; what {first.path}{more} would tell is not known: {first.problem}"


def up_to(scene: Scene) -> str:
    """Return in one line what is known of a run whose logs cannot be read to their end."""
    step = scene.progress.last_step
    where = f"up to step {step:,}" if step is not None else "so far"
    if any(one.kind == "unreadable" for one in lost_logs(scene.case.reading.files)):
        return f"nothing failed {where} in what could be read, and a part of the logs cannot be read"
    return f"nothing failed {where}, and what comes after it cannot be read"


def why_nothing(
    failed: bool, healthy: bool, lagging: SeriesFinding | None, shown: Sequence[SeriesFinding]
) -> str | None:
    """Return why nothing can be said, in words; None where something is."""
    if failed:
        return None
    if lagging is not None and not slow_ranks(lagging) and category_of_phase(lagging) is None and left_slower(shown):
        return _SLOWER
    return None if healthy else _UNTOLD[lagging is not None]


def calm_state(scene: Scene, shown: Sequence[SeriesFinding]) -> RunState:
    """Return the state of a run in whose lines nothing failed: its steps may tell more."""
    state = state_of(scene)
    if state not in ("running", "ended"):
        return state
    stopped = any(one.kind == "stopped" and not one.ranks for one in shown)
    if state == "running" and stopped and not _evaluated_since(scene):
        return "hung"
    return "slow" if slow(shown) is not None else state


def _evaluated_since(scene: Scene) -> bool:
    """Return whether scores or results were told after the last step: the training was over, and nothing hangs."""
    places = [(step.file, step.line) for step in scene.case.steps]
    last = max((line for file, line in places if file == places[-1][0]), default=0) if places else 0
    return any(
        event.id in ("progress.evaluation", "progress.results-saved") and event.place > (places[-1][0], last)
        for event in scene.case.events
        if places
    )


def calm_category(lagging: SeriesFinding | None, state: RunState, *, quiet: bool) -> Category:
    """Return the category of a run in whose lines nothing failed; a rank that lags behind has a cause, and computing has many."""
    if quiet:
        return "none"
    if state in ("hung", "unknown"):
        return "cannot-tell"
    if lagging is None:
        return "none"
    return category_of_phase(lagging) or ("cannot-tell" if slow_ranks(lagging) else "none")


def measured(lagging: SeriesFinding) -> tuple[NextStep, ...]:
    """Return what to measure where steps are slow."""
    probe = {"data": "loading", "compute": "compute", "communication": "collectives", "checkpoint": "storage"}.get(
        lagging.phase or "", "compute"
    )
    return (
        NextStep(text="measure this part alone, on every rank, and compare the ranks", kind="observe",
                 command=f"preflight investigate probe {probe}", tells=("slow-rank",)),
        NextStep(text="compare what the ranks run on", kind="observe", command="preflight investigate doctor --save DIR",
                 tells=("environment-diff",)),
    )  # fmt: skip


def slow_ones(lagging: SeriesFinding | None, people: People) -> Culprit:
    """Return the ranks that make a run slow, as sure as the test that found them is seldom wrong."""
    ranks = slow_ranks(lagging) if lagging is not None else ()
    if lagging is None or not ranks:
        return Culprit(reason="nothing failed")
    sure = 1.0 - max(lagging.false_alarms or 0.0, 0.02)
    quotes = (lagging.quote,) if lagging.quote is not None else ()
    nodes = tuple(dict.fromkeys(people.node_of[rank] for rank in ranks if rank in people.node_of))
    reasons = (Reason(text=lagging.text, weight=math.log(sure / (1 - sure)), quotes=quotes),)
    suspects = tuple(
        Suspect(rank=rank, node=people.node_of.get(rank), probability=sure, reasons=reasons) for rank in ranks
    )
    return Culprit(ranks=ranks, nodes=nodes, confidence=sure, reasons=reasons, suspects=suspects)
