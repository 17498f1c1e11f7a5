"""Let torch.compile fuse what lies between the products."""

from __future__ import annotations

import msgspec

from preflight.cost.parameters import is_transformer
from preflight.plan.changes import Change, layout_of
from preflight.plan.request import Request


def options(request: Request) -> list[Change]:
    """Return compilation of an eager run."""
    run = request.run
    if run.stack not in ("eager", "transformers") or not is_transformer(request.model):
        return []
    changed = msgspec.structs.replace(run, stack="compile")
    side = "minutes of compilation at the start, and again for every new shape"
    return [Change(key="compile", title="torch.compile", run=changed, parallel=layout_of(request), side_effect=side)]
