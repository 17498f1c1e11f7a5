"""What GPU and links promise, what is counted on, and how many bytes a step moves over each."""

from __future__ import annotations

from preflight.cost.ledger import ledger_if_known, micro_batches_of
from preflight.cost.machine import Coefficients, compute_dtype, machine_of
from preflight.cost.parameters import attention_width, expert_share, is_transformer
from preflight.cost.stage_time import block_tokens
from preflight.cost.step import groups_of
from preflight.plan.changes import layout_of
from preflight.plan.request import Request
from preflight.vocabulary.plan import Rate


def rates_of(request: Request, coefficients: Coefficients | None = None) -> tuple[Rate, ...]:
    """Return rates of arithmetic, memory and links of a settled request; empty where the GPU's peak is not known."""
    cluster = request.cluster
    machine = machine_of(cluster, request.run, coefficients or request.coefficients)
    if machine is None:
        return ()
    gpu, moved = cluster.gpu, moved_per_step(request)
    found = [
        Rate(
            name=f"matrix products ({compute_dtype(request.run)})", promised=machine.peak, used=machine.matmul,
            unit="FLOP/s",
        ),
        Rate(name="attention", promised=machine.peak, used=machine.attention, unit="FLOP/s"),
        Rate(name="memory", promised=gpu.bandwidth, used=machine.bandwidth, unit="B/s"),
    ]  # fmt: skip
    shared = {axis: _shared(request, axis) for axis in moved}
    inside = {axis: size for axis, size in moved.items() if shared[axis] is None}
    across = {axis: size / share for axis, size in moved.items() if (share := shared[axis]) is not None}
    if cluster.num_gpus > 1:
        title = cluster.intra.title if cluster.intra else "the host's slots"
        promised = cluster.intra.bandwidth if cluster.intra else machine.fabric
        found.append(
            Rate(name=f"inside a node: {title}", promised=promised, used=machine.fabric, unit="B/s", moved_bytes=inside)
        )
    if cluster.nodes > 1 and cluster.inter is not None:
        found.append(
            Rate(
                name=f"between nodes: {cluster.inter.title}", promised=cluster.inter.bandwidth, used=machine.network,
                unit="B/s", moved_bytes=across,
            )
        )  # fmt: skip
    return tuple(found)


def _shared(request: Request, axis: str) -> float | None:
    """Return over how many network cards of a node the traffic of an axis spreads; None where it stays in the node.

    The ranks of a group in one node carry its traffic to the other nodes together, each over a card of its own.
    """
    group = groups_of(layout_of(request))[axis]
    together = group.ranks_in_node(request.cluster.gpus_per_node)
    return together if group.size > together else None


def moved_per_step(request: Request) -> dict[str, float]:
    """Return the bytes that a GPU sends in a step, by axis.

    An all-reduce of S bytes over n ranks sends 2 (n - 1) / n x S, a gather, a scatter and an exchange (n - 1) / n x S.
    Tensor parallel: two all-reduces of the stream for every block and pass. Data: gradients once, gathered weights for
    every pass where they are sharded. Pipeline: the stream once each way.
    """
    model, run, parallel = request.model, request.run, layout_of(request)
    ledger = ledger_if_known(model, run, parallel, request.cluster.gpu, 0)
    if ledger is None or not is_transformer(model):
        return {}
    pieces = micro_batches_of(run, parallel)
    layers, hidden = float(model.layers or 0) / parallel.pp, float(model.hidden or 0)
    width, passes = ledger.recipe.matmul, 3.0 if run.recompute == "full" else 2.0
    stream = (run.micro_batch or 0) * block_tokens(model, run) / parallel.cp * hidden * width
    tp, cp, ep, data = parallel.tp, parallel.cp, parallel.ep, parallel.dp_replicate * parallel.dp_shard * parallel.cp
    _, keys = attention_width(model)
    routed = layers * expert_share(model) * (model.experts_per_token or 0)
    gradients = ledger.recipe.gradient * ledger.share.trainable
    moved = {
        "tp": pieces * layers * passes * 2 * 2 * (tp - 1) / tp * stream,
        "cp": pieces * layers * passes * (cp - 1) * stream * 2 * keys / hidden / tp,
        "ep": pieces * routed * passes * 2 * (ep - 1) / ep * stream,
        "pp": 0.0
        if parallel.pp == 1
        else pieces * parallel.vp * 2 * stream / (tp if parallel.sequence_parallel else 1),
    }
    if parallel.zero_stage >= 3:
        weights = ledger.recipe.compute * ledger.share.parameters
        moved["dp"] = pieces * (data - 1) / data * (2 * weights + gradients)
    elif parallel.zero_stage:
        moved["dp"] = (data - 1) / data * (gradients + ledger.recipe.compute * ledger.share.parameters)
    else:
        moved["dp"] = 2 * (data - 1) / data * gradients
    return {axis: size for axis, size in moved.items() if size > 0}
