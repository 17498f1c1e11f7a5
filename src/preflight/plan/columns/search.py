"""Every layout of a space, evaluated: the quickest few thousand that fit, the front, and why the others are out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy

from preflight.cost.fragmentation import reserved_share
from preflight.cost.machine import Coefficients
from preflight.cost.workspace import context_bytes
from preflight.plan.columns.pool import Pool
from preflight.plan.columns.space import DEGREES, Block, Family, Variant, blocks_of, families_of, listed, variants_of
from preflight.plan.constraint import Layout, load_constraints
from preflight.plan.evaluate import Columns, evaluate
from preflight.plan.request import Request
from preflight.vocabulary.run import ParallelDims, RunSpec

# P(fit) of 0.8 lies 0.84 standard deviations above the middle, and the high end of an interval 1.645.
_NEEDED = 0.8416 / 1.645
# A rectangle is worked out as such when it has so many elements, and so many of them may be.
_LARGE, _DENSE = 2000, 0.7


class Ruled(msgspec.Struct):
    """Layouts that one constraint ruled out: how many, and one of them."""

    count: int
    parallel: ParallelDims
    reason: str


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What a search found.

    Attributes:
        pool: The quickest layouts that fit, and the front over time and memory.
        variants: What the pool's column ``variant`` points at.
        ruled: Layouts that were ruled out, by constraint.
        searched: Layouts whose memory and time were worked out.
        fitting: Those of them whose memory is likely to fit.
        least: The one that comes closest among those that do not fit: its variant, degrees, and the capacity it needs.
        seconds: Process time of the search.
    """

    pool: Pool
    variants: tuple[Variant, ...]
    ruled: dict[str, Ruled]
    searched: int
    fitting: int
    least: tuple[Variant, Any, float] | None
    seconds: float


def search(
    request: Request,
    coefficients: Coefficients | None = None,
    keep: int = 4000,
    say: Callable[[str], None] | None = None,
) -> Found:
    """Evaluate every layout of the request's space.

    Args:
        request: What is to be spread.
        coefficients: What to calculate with, instead of the request's own.
        keep: So many of the quickest layouts are kept.
        say: Is told now and then how far the search is.
    """
    begun = time.process_time()
    capacity = float(request.cluster.gpu.memory_bytes)
    pool = Pool(keep, len(DEGREES))
    ruled: dict[str, Ruled] = {}
    variants: list[Variant] = []
    searched = fitting = 0
    least: tuple[Variant, Any, float] | None = None
    families = families_of(request)
    for number, family in enumerate(families):
        choices = variants_of(request, family)
        start = len(variants)
        variants += choices
        for partial in (False, True):
            group = [start + index for index, variant in enumerate(choices) if variant.partial == partial]
            for block, mask in _admitted(request, family, partial, len(group), ruled) if group else ():
                if say is not None:
                    say(
                        f"{searched:,} layouts evaluated; {_who(family)}, {number + 1} of {len(families)} ways to shard"
                    )
                for index in group:
                    variant = variants[index]
                    kept = _kept(request, variant, block, mask, ruled)
                    elements = int(kept.sum())
                    seconds, device, needed = _evaluated(request, variant, block, coefficients)
                    searched += elements
                    fits = kept & (needed <= capacity)
                    count = int(fits.sum())
                    fitting += count
                    if count:
                        pool.add(index, seconds, device, fits, block)
                    if count < elements:
                        least = _closer(least, variant, block, kept & ~fits, needed)
    return Found(
        pool=pool.settled(), variants=tuple(variants), ruled=ruled, searched=searched, fitting=fitting,
        least=least, seconds=time.process_time() - begun,
    )  # fmt: skip


def _who(family: Family) -> str:
    """Return who shards what, in short: ``megatron ZeRO 1``."""
    return f"{family.framework or 'one GPU'}" + (f" ZeRO {family.zero_stage}" if family.zero_stage else "")


def _admitted(
    request: Request, family: Family, partial: bool, variants: int, ruled: dict[str, Ruled]
) -> Iterator[tuple[Block, Any]]:
    """Return what constraints leave: dense rectangles, and lists of what is left of the others.

    A rectangle costs less for every element, but it is worked out whole and a call costs as much as two thousand elements.
    """
    scattered: list[Any] = []
    for block in blocks_of(request, family, partial):
        mask = _mask(request, family, partial, block, variants, ruled)
        rows, columns = mask.any(axis=1), mask.any(axis=0)
        if not rows.any():
            continue
        part, kept = block.part(rows, columns), mask[numpy.ix_(rows, columns)]
        if kept.size > _LARGE and kept.mean() > _DENSE:
            yield part, kept
        else:
            scattered.append(part.table(*kept.nonzero()))
    for part in listed(scattered):
        yield part, numpy.ones(part.shape, dtype=bool)


def _mask(request: Request, family: Family, partial: bool, block: Block, variants: int, ruled: dict[str, Ruled]) -> Any:
    """Return which elements of a rectangle may be, counting the others by the first constraint that rules them out."""
    layout = layout_of(request, family, partial, block)
    mask: Any = numpy.ones(block.shape, dtype=bool)
    left = mask.size
    for loaded in load_constraints():
        if loaded.constraint.looks_at != "degrees":
            continue
        held = mask & loaded.holds(layout)
        count = int(held.sum())
        if count < left:
            _rule_out(layout, family, loaded, block, mask & ~held, (left - count) * variants, ruled)
        mask, left = held, count
    return mask


def _kept(request: Request, variant: Variant, block: Block, mask: Any, ruled: dict[str, Ruled]) -> Any:
    """Return which elements may be run like this variant."""
    layout = layout_of(request, variant.family, variant.partial, block)
    run = variant.run(layout.run, layout.run.micro_batch, layout.run.global_batch, block.recompute_layers)
    layout = msgspec.structs.replace(layout, run=run)
    for loaded in load_constraints():
        if loaded.constraint.looks_at == "run":
            held = mask & loaded.holds(layout)
            count = int(mask.sum()) - int(held.sum())
            if count:
                _rule_out(layout, variant.family, loaded, block, mask & ~held, count, ruled)
            mask = held
    return mask


def layout_of(request: Request, family: Family, partial: bool, block: Block) -> Layout:
    """Return a rectangle as constraints see it."""
    parallel = block.parallel(family)
    run = msgspec.structs.replace(
        request.run, micro_batch=block.micro_batch, global_batch=batch_of(request.run, parallel, block.micro_batch),
        recompute="full" if partial else "none", recompute_layers=block.recompute_layers if partial else None,
    )  # fmt: skip
    return Layout(model=request.model, run=run, parallel=parallel, cluster=request.cluster)


def batch_of(run: RunSpec, parallel: ParallelDims, micro_batch: Any) -> Any:
    """Return the samples of a step: as given, or what all ranks take together."""
    if run.global_batch is not None:
        return run.global_batch
    return micro_batch * parallel.dp_replicate * parallel.dp_shard * run.gradient_accumulation


def _rule_out(
    layout: Layout, family: Family, loaded: Any, block: Block, lost: Any, count: int, ruled: dict[str, Ruled]
) -> None:
    """Count layouts under the constraint that ruled them out; the first one stands for all."""
    name = loaded.constraint.name
    if name in ruled:
        ruled[name].count += count
        return
    row, column = numpy.argwhere(lost)[0]
    parallel, micro, layers = dims_of(family, block.table([row], [column])[0])
    batch = layout.run.global_batch
    whole = (
        batch if batch is None or isinstance(batch, int) else int(numpy.broadcast_to(batch, block.shape)[row, column])
    )
    run = msgspec.structs.replace(
        layout.run,
        micro_batch=micro,
        global_batch=whole,
        recompute_layers=layers if layout.run.recompute == "full" else None,
    )
    one = msgspec.structs.replace(layout, run=run, parallel=parallel)
    ruled[name] = Ruled(count=count, parallel=parallel, reason=loaded.reason(one))


def dims_of(family: Family, degrees: Any) -> tuple[ParallelDims, int, int]:
    """Return one layout's degrees as whole numbers, its micro-batch, and the blocks that it recomputes."""
    named: dict[str, Any] = {name: int(value) for name, value in zip(DEGREES, degrees, strict=True)}
    micro, layers = named.pop("micro_batch"), named.pop("recompute_layers")
    parallel = ParallelDims(
        zero_stage=family.zero_stage, sequence_parallel=family.sequence_parallel, framework=family.framework, **named
    )
    return parallel, micro, layers


def _evaluated(
    request: Request, variant: Variant, block: Block, coefficients: Coefficients | None
) -> tuple[Any, Any, Any]:
    """Return seconds for a sample, bytes on the device, and the capacity that makes them fit with enough probability."""
    parallel = block.parallel(variant.family)
    batch = batch_of(request.run, parallel, block.micro_batch)
    run = variant.run(request.run, block.micro_batch, batch, block.recompute_layers)
    known = evaluate(request.model, run, parallel, request.cluster, coefficients or request.coefficients)
    seconds = known.step.total if known.step is not None else known.device
    return seconds / batch, known.device, needed_capacity(request, run, parallel, known)


def needed_capacity(request: Request, run: RunSpec, parallel: ParallelDims, known: Columns) -> Any:
    """Return the capacity below which a layout is out: what the spread of the allocator and the context alone asks for.

    The finalists are held against the whole interval.
    """
    context, share = context_bytes(request.cluster.gpu, parallel), reserved_share(run, request.model.experts)
    above = numpy.hypot(known.allocated * (share.high - share.mid), context.high - context.mid)
    return known.device * (1 + above / known.device) ** _NEEDED


def _closer(
    closest: tuple[Variant, Any, float] | None, variant: Variant, block: Block, mask: Any, needed: Any
) -> tuple[Variant, Any, float] | None:
    """Return the layout that needs the least memory."""
    bytes_ = numpy.where(mask, needed, numpy.inf)
    row, column = numpy.unravel_index(int(bytes_.argmin()), block.shape)
    least = float(bytes_[row, column])
    if closest is not None and closest[2] <= least:
        return closest
    return variant, block.table([row], [column])[0], least
