"""The sequence is divided over context-parallel and tensor-parallel ranks.

Context parallelism cuts a causal sequence into twice as many pieces as there are ranks and gives each an early and a late
one, so that all have the same work. Sequence parallelism divides what is left over the tensor-parallel ranks.
"""

from __future__ import annotations

from typing import Any

from preflight.plan.constraint import Constraint, Example, Layout

CONSTRAINT = Constraint(
    name="sequence-not-divisible",
    sentence="2 x context_parallel divides the sequence, with sequence parallelism times tensor_parallel",
)

GOOD = (
    Example(run={"sequence_length": 8192}, parallel={"cp": 8, "tp": 8, "sequence_parallel": True}),
    Example(run={"sequence_length": 1001}, parallel={"cp": 1, "tp": 4}),
    Example(run={"sequence_length": None}, parallel={"cp": 1, "tp": 4, "sequence_parallel": True}),
)
BAD = (
    Example(run={"sequence_length": 1000}, parallel={"cp": 16}),
    Example(run={"sequence_length": 2048}, parallel={"cp": 2048}),
    Example(run={"sequence_length": 1026}, parallel={"tp": 4, "sequence_parallel": True}),
)


def holds(layout: Layout) -> Any:
    """Return whether every rank gets the same number of tokens."""
    length, parallel = layout.run.sequence_length, layout.parallel
    if not length:
        return parallel.cp <= 1
    stream = parallel.tp if parallel.sequence_parallel else 1
    return (parallel.cp <= 1) & (length % stream == 0) | (length % (2 * parallel.cp * stream) == 0)


def reason(layout: Layout) -> str:
    """Return why a layout may not be."""
    length, parallel = layout.run.sequence_length, layout.parallel
    cp, tp = int(parallel.cp), int(parallel.tp)
    if not length:
        return f"context_parallel is {cp}, but the samples have no sequence to divide"
    if cp == 1:
        return f"a sequence of {length} tokens cannot be divided by tensor_parallel {tp} (sequence parallelism)"
    over = f"2 x context_parallel {cp}" + (f" x tensor_parallel {tp}" if parallel.sequence_parallel and tp > 1 else "")
    return f"a sequence of {length} tokens cannot be divided by {over}"


def hint(layout: Layout) -> str | None:
    """Return the nearest length that can be divided."""
    length, parallel = layout.run.sequence_length, layout.parallel
    if not length:
        return "leave it out"
    stream = int(parallel.tp) if parallel.sequence_parallel else 1
    pieces = stream * (2 * int(parallel.cp) if parallel.cp > 1 else 1)
    return f"{-(-length // pieces) * pieces} tokens can"
