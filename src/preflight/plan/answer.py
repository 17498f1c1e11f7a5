"""The report of a search."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from preflight.cost.networks.spread import step_is_known
from preflight.errors import UsageError
from preflight.plan.candidate import candidate
from preflight.plan.choose import LEAST, SHOWN, Chosen, chosen_of, closest_of, with_cost
from preflight.plan.columns.doubt import doubt_of
from preflight.plan.columns.search import Found, batch_of, dims_of, search
from preflight.plan.experiment import experiment_of
from preflight.plan.reported import report_of
from preflight.plan.request import Request
from preflight.plan.spread import settled
from preflight.vocabulary.plan import Candidate, Plan, Point
from preflight.vocabulary.quantity import format_bytes
from preflight.vocabulary.report import Report

_CLOUD = 300


def searched_report(request: Request, say: Callable[[str], None] | None = None) -> Report:
    """Return the plan of the best layout there is.

    Args:
        request: What is to be spread.
        say: Is told now and then how far the work is.

    Raises:
        UsageError: Nothing that was asked for can be spread over these GPUs, fitting or not.
    """
    found = search(request, say=say)
    if not found.searched:
        raise _impossible(request, found)
    if say is not None:
        say(f"{found.searched:,} layouts evaluated; the finalists are timed again")
    chosen = chosen_of(request, found)
    plan = Plan(
        pareto=chosen.pareto, rejected=chosen.rejected, searched=found.searched, seconds=round(found.seconds, 3),
        cloud=_cloud(request, found),
    )  # fmt: skip
    if not chosen.best:
        return _nothing_fits(request, found, plan)
    plan, best = _compared(request, chosen, plan)
    return report_of(_ready(request, best), best, plan)


def _cloud(request: Request, found: Found) -> tuple[Point, ...]:
    """Return a sample of what the search kept, evenly over the order of time; empty where no time is known."""
    table = found.pool.table
    if not step_is_known(request.model) or not len(table):
        return ()
    rows = table[table[:, 0].argsort()]
    every = max(len(rows) // _CLOUD, 1)
    points = []
    for seconds, size, variant, *degrees in rows[::every]:
        parallel, micro, _ = dims_of(found.variants[int(variant)].family, degrees)
        batch = int(batch_of(request.run, parallel, micro))
        points.append(Point(float(seconds) * batch, float(size), batch))
    return tuple(points)


def _ready(request: Request, one: Candidate) -> Request:
    return msgspec.structs.replace(request, parallel=one.parallel, run=one.run)


def _compared(request: Request, chosen: Chosen, plan: Plan) -> tuple[Plan, Candidate]:
    """Return the plan with the candidates and what would tell them apart, and the one to take.

    That is the one with the least regret over what is not known of hardware and software. At least three are shown where
    there are as many, and at most five: first those that are quicker than it in at least one of twenty draws.
    """
    best, doubt = chosen.best, doubt_of(request, chosen.best)
    if doubt is None:
        return msgspec.structs.replace(plan, candidates=best[:SHOWN]), best[0]
    others = [index for index in range(len(best)) if index not in (doubt.safest, *doubt.rivals)]
    kept = [doubt.safest, *doubt.rivals, *others[: max(LEAST - 1 - len(doubt.rivals), 0)]][:SHOWN]
    shown = {index: msgspec.structs.replace(best[index], chance=round(doubt.chances[index], 3)) for index in kept}
    experiment = None
    if doubt.rivals:
        rival = doubt.rivals[0]
        experiment = experiment_of(request.cluster, best[doubt.safest], best[rival], doubt.chances[rival], doubt.shares)
    plan = msgspec.structs.replace(
        plan, candidates=tuple(shown[index] for index in sorted(shown)), experiment=experiment,
        regret=round(doubt.regrets[doubt.safest], 4),
    )  # fmt: skip
    return plan, shown[doubt.safest]


def _impossible(request: Request, found: Found) -> UsageError:
    """Return why there is nothing to search: what a direct plan says, else the most frequent reason."""
    try:
        settled(request)
    except UsageError as error:
        return error
    most = max(found.ruled.values(), key=lambda ruled: ruled.count, default=None)
    gpus = request.cluster.num_gpus
    return UsageError(f"no layout over {gpus} GPUs is possible", most.reason if most else "ask for fewer fixed degrees")


def _nothing_fits(request: Request, found: Found, plan: Plan) -> Report:
    """Return the report of a search in which nothing fits: what comes closest, and what it lacks."""
    closest = closest_of(request, found)
    if closest is None:  # what a layout needs is known of none
        ready = settled(request)
        assert ready.parallel is not None
        direct = candidate(ready, ready.parallel, ready.run)
        return report_of(ready, direct, msgspec.structs.replace(plan, candidates=(direct,)))
    parallel, run, memory = closest
    one = with_cost(request, candidate(request, parallel, run))
    notes = list(request.notes)
    if memory.device_bytes is not None:
        notes.append(
            f"nothing fits: of {found.searched} layouts the one that comes closest needs"
            f" {format_bytes(memory.device_bytes.mid)} (up to {format_bytes(memory.device_bytes.high)}) of"
            f" {format_bytes(request.cluster.gpu.memory_bytes)}"
        )
    ready = msgspec.structs.replace(_ready(request, one), notes=tuple(notes))
    return report_of(ready, one, msgspec.structs.replace(plan, candidates=(one,)))
