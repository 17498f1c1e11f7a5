"""Whether what was learnt is of another program than the one that was recorded: then none of it was asked."""

from __future__ import annotations

from collections.abc import Container, Sequence

from preflight.monitor.scope import MODEL, models_of, without_options
from preflight.monitor.window import Run
from preflight.vocabulary.invariant import Invariant

_MOST = 3


def of_another_program(runs: Sequence[Run], invariants: Sequence[Invariant], left: Container[str]) -> list[str]:
    """Say that nothing of what was learnt of a program was asked, since other models are trained; nothing where it was.

    Args:
        runs: What is known of the trainings that were recorded.
        invariants: What was to be held against them.
        left: The ids of those that judged nothing.
    """
    learnt = [one for one in invariants if one.suppressed is None and MODEL in one.subject]
    if not learnt or not runs or any(one.id not in left for one in learnt):
        return []
    known = sorted({without_options(one.subject[MODEL]) for one in learnt})
    trained = sorted(set(map(models_of, runs)))
    if set(known) & set(trained):
        return []  # the run was too short for them, or has other options
    return [
        f"nothing that was learnt of a program ({len(learnt)} {'statement' if len(learnt) == 1 else 'statements'}) was asked: "
        f"it was learnt of {' and of '.join(known[:_MOST])}, and this run trains {' and '.join(trained[:_MOST])}; learn from "
        "a run of this program, or look for what its model has lost or gained"
    ]
