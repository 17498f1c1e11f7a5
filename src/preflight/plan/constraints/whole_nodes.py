"""Groups that talk all the time lie in whole nodes.

Tensor-parallel and context-parallel groups are neighbours in the order of ranks. Six of them in nodes of eight would leave
every second group astride two nodes, at the speed of the network, while the others are fast: the step waits for the slow
ones.
"""

from __future__ import annotations

from typing import Any

from preflight.plan.constraint import Constraint, Example, Layout, nearest_divisor

CONSTRAINT = Constraint(
    name="groups-astride-nodes",
    sentence="tensor_parallel x context_parallel divides a node, or is a multiple of it",
    kind="unwise",
)

GOOD = (
    Example(parallel={"tp": 8, "dp_shard": 8}),
    Example(parallel={"tp": 4, "cp": 4, "dp_shard": 4}),
    Example(parallel={"tp": 6}, gpus_per_node=8),
)
BAD = (
    Example(parallel={"tp": 6, "dp_shard": 4}),
    Example(parallel={"tp": 3, "dp_shard": 8}),
    Example(parallel={"tp": 4, "cp": 3, "dp_shard": 2}),
)


def holds(layout: Layout) -> Any:
    """Return whether no group lies astride two nodes; within one node there is nothing to stride over."""
    node, parallel = layout.cluster.gpus_per_node, layout.parallel
    together = parallel.tp * parallel.cp
    whole = (node % parallel.tp == 0) | (parallel.tp % node == 0)
    return (parallel.world_size <= node) | (whole & ((node % together == 0) | (together % node == 0)))


def reason(layout: Layout) -> str:
    """Return why a layout may not be."""
    node, parallel = layout.cluster.gpus_per_node, layout.parallel
    return f"groups of tensor x context = {int(parallel.tp)} x {int(parallel.cp)} lie astride nodes of {node} GPUs"


def hint(layout: Layout) -> str | None:
    """Return the nearest size that does not."""
    return f"{nearest_divisor(layout.cluster.gpus_per_node, layout.parallel.tp * layout.parallel.cp)} GPUs do not"
