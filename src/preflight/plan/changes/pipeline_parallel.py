"""Half or twice the pipeline's stages, and more virtual stages on each rank."""

from __future__ import annotations

from preflight.plan.changes import Change, layout_of, rebalanced
from preflight.plan.request import Request


def options(request: Request) -> list[Change]:
    """Return the neighbours of the present degree, and interleaving."""
    now, found = layout_of(request), []
    for degree in {now.pp // 2, now.pp * 2} - {0, now.pp}:
        spread = rebalanced(request, now, pp=degree, vp=1)
        if spread is not None:
            parallel, run = spread
            found.append(Change(key="pp", title=f"pipeline parallel {now.pp} -> {degree}", run=run, parallel=parallel))
    if now.pp > 1:
        spread = rebalanced(request, now, vp=now.vp * 2)
        if spread is not None:
            parallel, run = spread
            title = f"virtual stages {now.vp} -> {now.vp * 2} (interleaved schedule)"
            found.append(
                Change(key="vp", title=title, run=run, parallel=parallel, side_effect="more transfers between stages")
            )
    return found
