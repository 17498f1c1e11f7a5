"""Half or twice the tensor-parallel degree; data parallelism takes the rest."""

from __future__ import annotations

from preflight.plan.changes import Change, layout_of, rebalanced
from preflight.plan.request import Request


def options(request: Request) -> list[Change]:
    """Return the neighbours of the present degree."""
    now, found = layout_of(request), []
    for degree in {now.tp // 2, now.tp * 2} - {0, now.tp}:
        spread = rebalanced(request, now, tp=degree)
        if spread is not None:
            parallel, run = spread
            far = degree > request.cluster.gpus_per_node
            found.append(
                Change(
                    key="tp", title=f"tensor parallel {now.tp} -> {degree}", run=run, parallel=parallel,
                    side_effect="its collectives leave the node" if far else None,
                )
            )  # fmt: skip
    return found
