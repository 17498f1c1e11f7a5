"""Optimizer states of 8 bits."""

from __future__ import annotations

import msgspec

from preflight.cost.optimizers import optimizer_state
from preflight.plan.changes import Change, layout_of
from preflight.plan.request import Request


def options(request: Request) -> list[Change]:
    """Return 8-bit states, where there are two full ones."""
    run, found = request.run, []
    state = optimizer_state(run.optimizer or "", run.optimizer_momentum)
    if state is None or state.full < 2 or run.offload != "none":
        return []
    if not state.paged:
        changed = msgspec.structs.replace(run, optimizer="adamw8bit")
        side = "quantised moments"
        found.append(
            Change(key="optimizer", title=f"{run.optimizer} -> 8-bit AdamW", run=changed, parallel=layout_of(request),
                   side_effect=side, exact=False)
        )  # fmt: skip
    return found
