"""The same request on several clusters, side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from preflight.errors import UsageError
from preflight.plan.candidate import candidate
from preflight.plan.duration import duration_of
from preflight.plan.make import plan_report
from preflight.plan.request import Request
from preflight.plan.spending import cost_of
from preflight.plan.spread import settled
from preflight.vocabulary.plan import Candidate, Compared, Plan
from preflight.vocabulary.report import SCHEMA, Report, Tool, Verdict
from preflight.vocabulary.version import VERSION


def compared_report(requests: Sequence[Request], say: Callable[[str], None] | None = None) -> Report:
    """Return what one request needs on each of several clusters.

    The verdict is GO where the run fits on one of them, and NO-GO where it fits on none.

    Args:
        requests: The run on each of them.
        say: Is told now and then how far the work is.

    Raises:
        UsageError: There is no layout on any of them; the first reason.
    """
    rows, errors = [], []
    for request in requests:
        try:
            rows.append(_one(request, _telling(request, say)))
        except UsageError as error:
            errors.append(error)
            rows.append(Compared(cluster=_named(request), gpus=request.cluster.num_gpus, reason=_sentence(error)))
    if len(errors) == len(requests):
        raise errors[0]
    first = requests[0]
    shared = [said for said in first.assumptions if all(said in request.assumptions for request in requests)]
    own = [f"{_named(request)}: {said}" for request in requests for said in request.assumptions if said not in shared]
    told = {
        name: value
        for name, value in first.inputs.items()
        if name in ("model", "batch", "strategy", "config", "script")
    }
    return Report(
        schema=SCHEMA, command="plan", tool=Tool("preflight", VERSION), verdict=_verdict(rows),
        inputs={"subject": f"{told.get('model', 'a model')} on {len(requests)} clusters", **told},
        plan=Plan(compared=tuple(rows), assumptions=(*shared, *own)),
        notes=tuple(dict.fromkeys(note for request in requests for note in request.notes)),
    )  # fmt: skip


def _telling(request: Request, say: Callable[[str], None] | None) -> Callable[[str], None] | None:
    """Return who is told what is done for one of the clusters."""
    return None if say is None else lambda text: say(f"{_named(request)}: {text}")


def _one(request: Request, say: Callable[[str], None] | None) -> Compared:
    ready, chosen = _chosen(request, say)
    duration = duration_of(ready, chosen) if not ready.basic else None
    return Compared(
        cluster=_named(request),
        gpus=request.cluster.num_gpus,
        candidate=chosen,
        duration=duration,
        cost=cost_of(request.cluster, duration) if duration else None,
    )


def _chosen(request: Request, say: Callable[[str], None] | None) -> tuple[Request, Candidate]:
    """Return the layout that was asked for, or the best one where a search was."""
    if request.search:
        plan = plan_report(request, say).plan
        if plan is None or plan.chosen is None:
            raise UsageError("no layout fits")
        best = plan.chosen
        return msgspec.structs.replace(request, run=best.run, parallel=best.parallel), best
    ready = settled(request)
    assert ready.parallel is not None
    chosen = candidate(ready, ready.parallel, ready.run)
    return ready, msgspec.structs.replace(chosen, step=None) if ready.basic else chosen


def _named(request: Request) -> str:
    return f"{request.cluster.num_gpus} x {request.cluster.gpu.title}"


def _sentence(error: UsageError) -> str:
    return f"{error}; {error.hint}" if error.hint else str(error)


def _verdict(rows: Sequence[Compared]) -> Verdict:
    fits = {row.candidate.memory.fits for row in rows if row.candidate is not None}
    return "GO" if "yes" in fits else "UNKNOWN" if "unknown" in fits else "NO-GO"
