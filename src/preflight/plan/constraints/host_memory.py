"""States on the host fit in its memory.

What is offloaded lies in the memory of the node, for all of its GPUs together. A node of eight GPUs is sold with up to
2 TB of it (DGX A100 and H100 data sheets), of which the loader and the file cache want a part; ``cluster.host_memory``
says what there is.
"""

from __future__ import annotations

from typing import Any

from preflight.cost.ledger import micro_batches_of
from preflight.cost.numeric import smaller
from preflight.cost.parameters import ParameterCount, count_parameters
from preflight.cost.recipe import recipe_of
from preflight.cost.saved import activations_of, missing_inputs
from preflight.cost.shares import share_of
from preflight.plan.constraint import Constraint, Example, Layout
from preflight.vocabulary.quantity import format_bytes

CONSTRAINT = Constraint(
    name="host-memory-too-small",
    sentence="what a node offloads fits in its memory (1.5 TB where that was not said)",
    kind="unwise",
    looks_at="run",
)
USUAL = 1.5e12
# fp32 weights and two moments; with the weights their gradients too.
_BYTES = {"optimizer": 12.0, "parameters": 16.0}

GOOD = (
    Example(run={"offload": "parameters"}, parallel={"dp_shard": 8, "zero_stage": 3}),
    Example(model={"layers": 960}, run={"offload": "none"}, parallel={"dp_shard": 8, "zero_stage": 3}),
    Example(model={"layers": 640}, run={"offload": "optimizer"}, parallel={"dp_shard": 64, "zero_stage": 3}),
    Example(run={"offload": "activations", "recompute": "full"}, parallel={"dp_replicate": 8}),
)
BAD = (
    Example(model={"layers": 960}, run={"offload": "parameters"}, parallel={"dp_shard": 8, "zero_stage": 3}),
    Example(model={"layers": 960}, run={"offload": "optimizer"}, parallel={"dp_shard": 4, "zero_stage": 1}),
    Example(model={"layers": 320}, run={"offload": "optimizer"}, parallel={"dp_replicate": 8}),
    Example(run={"offload": "activations", "recompute": "full", "micro_batch": 4096}, parallel={"dp_replicate": 8}),
)


def holds(layout: Layout) -> Any:
    """Return whether the host has room; nothing is said of a model whose parameters are not known."""
    return _needed(layout) <= _host(layout)


def reason(layout: Layout) -> str:
    """Return why a layout may not be."""
    return f"{layout.run.offload} on the host take {format_bytes(_needed(layout))} of every node, more than {format_bytes(_host(layout))}"


def hint(layout: Layout) -> str | None:
    """Return what takes less."""
    return "more nodes, or fewer states on the host"


def _host(layout: Layout) -> float:
    return layout.cluster.host_memory_bytes or USUAL


def _needed(layout: Layout) -> Any:
    """Return the bytes of all ranks of a node."""
    count, parallel = count_parameters(layout.model), layout.parallel
    bytes_ = _BYTES.get(layout.run.offload, 0.0)
    if count is None:
        return 0.0 * parallel.tp
    sharing = smaller(parallel.world_size, layout.cluster.gpus_per_node)
    if layout.run.offload == "activations":
        return _activations(layout, count) * sharing
    ranks = parallel.dp_shard * parallel.cp if parallel.zero_stage else 1
    own = count.total / (parallel.tp * parallel.pp * ranks)
    return bytes_ * own * sharing


def _activations(layout: Layout, count: ParameterCount) -> Any:
    """Return the bytes that the first stage, which has most micro-batches in flight, keeps on the host."""
    run, parallel = layout.run, layout.parallel
    if missing_inputs(layout.model, run) is not None:
        return 0.0 * parallel.tp
    share = share_of(layout.model, run, count, parallel, 0)
    recipe = recipe_of(run, parallel)
    return activations_of(layout.model, run, parallel, share, recipe, micro_batches_of(run, parallel)).host
