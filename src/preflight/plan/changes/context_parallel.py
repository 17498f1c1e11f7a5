"""Divide each sequence over twice as many ranks."""

from __future__ import annotations

from preflight.plan.changes import Change, layout_of, rebalanced
from preflight.plan.request import Request


def options(request: Request) -> list[Change]:
    """Return the next degree, and the one before."""
    now, found = layout_of(request), []
    length = request.run.sequence_length
    for degree in {now.cp // 2, now.cp * 2} - {0, now.cp}:
        if not length or length % (2 * degree * now.tp):
            continue
        spread = rebalanced(request, now, cp=degree)
        if spread is not None:
            parallel, run = spread
            found.append(Change(key="cp", title=f"context parallel {now.cp} -> {degree}", run=run, parallel=parallel))
    return found
