"""Context parallelism needs an attention kernel that merges parts.

A rank sees the keys of the others one part after the other and merges the results by their softmax statistics, which flash
kernels return and a written-out softmax does not keep.
"""

from __future__ import annotations

from typing import Any

from preflight.plan.constraint import Constraint, Example, Layout

CONSTRAINT = Constraint(
    name="context-parallel-without-flash", sentence="context_parallel needs flash, efficient or cuDNN attention"
)

GOOD = (
    Example(run={"attention": "flash"}, parallel={"cp": 4}),
    Example(run={"attention": "eager"}, parallel={"cp": 1}),
    Example(run={"attention": "cudnn"}, parallel={"cp": 2}),
)
BAD = (
    Example(run={"attention": "eager"}, parallel={"cp": 4}),
    Example(run={"attention": "math"}, parallel={"cp": 2}),
    Example(run={"attention": "eager"}, parallel={"cp": 16}),
)


def holds(layout: Layout) -> Any:
    """Return whether parts can be merged, or there is one."""
    return (layout.parallel.cp <= 1) | (layout.run.attention not in ("eager", "math"))


def reason(layout: Layout) -> str:
    """Return why a layout may not be."""
    return f"context_parallel is {int(layout.parallel.cp)}, but {layout.run.attention} attention cannot merge parts of a sequence"


def hint(layout: Layout) -> str | None:
    """Return what can."""
    return "attention: flash"
