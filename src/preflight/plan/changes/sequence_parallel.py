"""Divide norms and residuals over the tensor-parallel ranks too."""

from __future__ import annotations

import msgspec

from preflight.plan.changes import Change, layout_of
from preflight.plan.request import Request


def options(request: Request) -> list[Change]:
    """Return sequence parallelism where tensor parallelism runs without it."""
    now, length = layout_of(request), request.run.sequence_length
    if now.tp == 1 or now.sequence_parallel or not length or length % now.tp:
        return []
    parallel = msgspec.structs.replace(now, sequence_parallel=True)
    return [
        Change(
            key="sequence_parallel", title="sequence parallel norms and residuals", run=request.run, parallel=parallel
        )
    ]
