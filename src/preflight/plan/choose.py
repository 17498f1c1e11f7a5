"""From what a search found to a plan: the best layout, those that could be better, the front, and the rest by reason."""

from __future__ import annotations

from typing import Any

import msgspec

from preflight.cost.memory import estimate_memory
from preflight.plan.candidate import candidate
from preflight.plan.columns.search import Found, batch_of, dims_of
from preflight.plan.columns.space import Variant
from preflight.plan.duration import duration_of
from preflight.plan.request import Request
from preflight.plan.spending import cost_of
from preflight.vocabulary.memory import MemoryEstimate
from preflight.vocabulary.plan import Candidate, Rejected
from preflight.vocabulary.quantity import format_bytes
from preflight.vocabulary.run import ParallelDims, RunSpec

FINALISTS, LEAST, SHOWN, FRONT = 24, 3, 5, 12


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """What was chosen: the best first, the front over time, memory, money and energy, what was ruled out."""

    best: tuple[Candidate, ...]
    pareto: tuple[Candidate, ...]
    rejected: tuple[Rejected, ...]


def chosen_of(request: Request, found: Found) -> Chosen:
    """Return the quickest layouts of different form whose whole interval of memory is likely to fit, and the front."""
    best = finalists(request, found, found.pool.table, FINALISTS)
    pareto = _not_beaten((*best[:1], *_front(request, found)))
    return Chosen(best=best, pareto=pareto, rejected=rejections(request, found))


def _front(request: Request, found: Found) -> list[Candidate]:
    """Return layouts that none is both quicker and smaller than, up to ``FRONT``, evenly from the quickest to the smallest.

    Layouts that spread alike and differ in what they recompute are different trades of time for memory.
    """
    fitting = []
    for row in found.pool.front():
        parallel, run = settings_of(request, found.variants[int(row[2])], row[3:])
        if estimate_memory(request.model, run, parallel, request.cluster.gpu).fits == "yes":
            fitting.append((parallel, run))
    last = len(fitting) - 1
    kept = range(last + 1) if last < FRONT else sorted({round(last * n / (FRONT - 1)) for n in range(FRONT)})
    return [with_cost(request, candidate(request, *fitting[index])) for index in kept]


def finalists(request: Request, found: Found, table: Any, most: int) -> tuple[Candidate, ...]:
    """Return up to ``most`` layouts of a table in its order, one for every way to spread, all of them likely to fit."""
    taken: list[Candidate] = []
    forms: set[tuple[Any, ...]] = set()
    for row in table:
        variant = found.variants[int(row[2])]
        parallel, run = settings_of(request, variant, row[3:])
        form = _form(parallel)
        if form in forms or estimate_memory(request.model, run, parallel, request.cluster.gpu).fits != "yes":
            continue
        forms.add(form)
        taken.append(with_cost(request, candidate(request, parallel, run)))
        if len(taken) == most:
            break
    return tuple(taken)


def settings_of(request: Request, variant: Variant, degrees: Any) -> tuple[ParallelDims, RunSpec]:
    """Return one layout's degrees and run as a plan takes them."""
    parallel, micro, layers = dims_of(variant.family, degrees)
    part = layers if layers != request.model.layers else None
    return parallel, variant.run(request.run, micro, batch_of(request.run, parallel, micro), part)


def with_cost(request: Request, one: Candidate) -> Candidate:
    """Return the candidate with what its whole run costs."""
    return msgspec.structs.replace(one, cost=cost_of(request.cluster, duration_of(request, one)))


def _form(parallel: ParallelDims) -> tuple[Any, ...]:
    """Return what makes layouts different to a person: who shards what over how many, not how finely."""
    data = parallel.dp_replicate * parallel.dp_shard
    return (parallel.framework, parallel.zero_stage, parallel.tp, parallel.pp, parallel.cp, parallel.ep, data)


def _not_beaten(candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """Return those that no other beats in time, headroom, money and energy together."""
    scored = [(figures(one), one) for one in candidates]
    kept: list[tuple[tuple[float, ...], Candidate]] = []
    for score, one in scored:
        beaten = any(_beats(other, score) for other, _ in scored) or any(score == other for other, _ in kept)
        if not beaten:
            kept.append((score, one))
    return tuple(one for _, one in sorted(kept, key=lambda pair: pair[0]))


def figures(one: Candidate) -> tuple[float, ...]:
    """Return what is better when smaller: seconds for a sample, bytes, dollars, kilowatt-hours; unknown ones are equal."""
    cost, batch = one.cost, one.run.global_batch or 1
    seconds = one.step.seconds.mid / batch if one.step else 0.0
    bytes_ = one.memory.device_bytes.mid if one.memory.device_bytes else 0.0
    usd = cost.usd.mid if cost and cost.usd else 0.0
    return seconds, bytes_, usd, (cost.kwh if cost else None) or 0.0


def _beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


def rejections(request: Request, found: Found) -> tuple[Rejected, ...]:
    """Return what was ruled out by reason, the most frequent first; memory is one of them."""
    rejected = [Rejected(parallel=r.parallel, reason=r.reason, count=r.count) for r in found.ruled.values()]
    short = found.searched - found.fitting
    if short and found.least is not None:
        variant, degrees, needed = found.least
        parallel, *_ = dims_of(variant.family, degrees)
        capacity = request.cluster.gpu.memory_bytes
        reason = f"memory is not likely to fit in {format_bytes(capacity)}; this one comes closest with {format_bytes(needed)}"
        rejected.append(Rejected(parallel=parallel, reason=reason, count=short))
    return tuple(sorted(rejected, key=lambda one: -one.count))


def closest_of(request: Request, found: Found) -> tuple[ParallelDims, RunSpec, MemoryEstimate] | None:
    """Return the layout that comes closest to fitting, where none fits."""
    if found.least is None:
        return None
    variant, degrees, _ = found.least
    parallel, run = settings_of(request, variant, degrees)
    return parallel, run, estimate_memory(request.model, run, parallel, request.cluster.gpu)
