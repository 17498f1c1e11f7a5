"""Flash attention instead of a matrix of scores that is written out."""

from __future__ import annotations

import msgspec

from preflight.plan.changes import Change, layout_of
from preflight.plan.request import Request


def options(request: Request) -> list[Change]:
    """Return flash attention where scores are written out."""
    run = request.run
    if run.attention not in ("eager", "math") or not request.model.heads:
        return []
    changed = msgspec.structs.replace(run, attention="flash")
    return [Change(key="attention", title="flash attention (SDPA)", run=changed, parallel=layout_of(request))]
