"""Half or twice the samples of a forward pass, at the same global batch."""

from __future__ import annotations

import msgspec

from preflight.plan.changes import Change, layout_of
from preflight.plan.request import Request


def options(request: Request) -> list[Change]:
    """Return the neighbours of the present micro-batch that divide a rank's share."""
    now, run = layout_of(request), request.run
    share = (run.global_batch or 0) // (now.dp_replicate * now.dp_shard)
    size = run.micro_batch or 1
    found = []
    for other in {size // 2, size * 2} - {0, size}:
        if share % other == 0:
            changed = msgspec.structs.replace(run, micro_batch=other)
            title = f"micro-batch {size} -> {other} (accumulate over {share // other})"
            found.append(Change(key="micro_batch", title=title, run=changed, parallel=now))
    return found
