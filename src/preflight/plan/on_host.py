"""What a layout puts into the memory of the nodes' hosts, and whether there is room."""

from __future__ import annotations

import msgspec

from preflight.plan.constraint import Layout
from preflight.plan.constraints import host_memory
from preflight.plan.request import Request
from preflight.vocabulary.plan import Candidate
from preflight.vocabulary.quantity import format_bytes


class OnHost(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be said of it; ``too_much`` where it is more than a host was said to have."""

    too_much: bool = False
    assumptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def offloaded(request: Request, chosen: Candidate) -> OnHost:
    """Return what is to be said of states and weights on the host."""
    cluster = request.cluster
    if chosen.run.offload not in ("optimizer", "parameters", "activations"):
        return OnHost()
    layout = Layout(model=request.model, run=chosen.run, parallel=chosen.parallel, cluster=cluster)
    fits, said = bool(host_memory.holds(layout)), cluster.host_memory_bytes is not None
    usual = f"the host of a node has room for {format_bytes(host_memory.USUAL)} of offloaded states (--host-memory says otherwise)"
    return OnHost(
        too_much=said and not fits,
        assumptions=() if said else (usual,),
        notes=() if fits else (host_memory.reason(layout),),
    )
