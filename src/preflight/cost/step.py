"""Seconds of an optimizer step: stages, pipeline, collectives, optimizer.

The order of ranks is Megatron's: tensor parallel varies fastest, then context, sharded data, replicated data, and the
pipeline slowest, so that the busiest groups lie inside a node.
"""

from __future__ import annotations

import msgspec

from preflight.cost.collectives import Group, all_reduce, exchange, gather, transfer
from preflight.cost.kernels import matmul_seconds, traffic_seconds
from preflight.cost.layer_time import LayerTime, layer_time
from preflight.cost.ledger import Ledger
from preflight.cost.machine import Machine
from preflight.cost.numeric import larger, logarithm2, smaller, where
from preflight.cost.parameters import attention_width, vision_tokens
from preflight.cost.saved import recomputed_share
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec
from preflight.vocabulary.step import StepBreakdown


class StageTime(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of one micro-batch on one pipeline stage.

    Attributes:
        forward: Kernels. backward: Kernels, with what is recomputed.
        exposed: Collectives inside the layers that nothing hides, both ways.
        host: What the host needs beyond the kernels to launch them.
    """

    forward: float
    backward: float
    exposed: float
    host: float

    @property
    def total(self) -> float:
        """Everything."""
        return self.forward + self.backward + self.exposed + self.host


def tokens_of(model: ModelSpec, run: RunSpec) -> float:
    """Return the tokens of one sample."""
    if model.family == "vision_transformer":
        return vision_tokens(model, run.image_size or model.image_size) or 0.0
    return float(run.sequence_length or 0)


def groups_of(parallel: ParallelDims) -> dict[str, Group]:
    """Return the groups of a rank by axis."""
    cp = parallel.tp
    shard = cp * parallel.cp
    replicate = shard * parallel.dp_shard
    pipeline = replicate * parallel.dp_replicate
    return {
        "tp": Group(size=parallel.tp),
        "cp": Group(size=parallel.cp, stride=cp),
        "ep": Group(size=parallel.ep, stride=cp),
        "dp_shard": Group(size=parallel.dp_shard * parallel.cp, stride=cp),
        "dp_replicate": Group(size=parallel.dp_replicate, stride=replicate),
        "dp": Group(size=parallel.dp_shard * parallel.dp_replicate * parallel.cp, stride=cp),
        "pp": Group(size=parallel.pp, stride=pipeline),
    }


def step_of(
    model: ModelSpec,
    run: RunSpec,
    parallel: ParallelDims,
    machine: Machine,
    first: Ledger,
    last: Ledger,
) -> StepBreakdown:
    """Return the seconds of one optimizer step.

    Args:
        model: A transformer.
        run: Batch, length, precision, recomputation.
        parallel: How it is spread.
        machine: The rates.
        first: The ledger of the first pipeline stage.
        last: That of the last one.
    """
    groups = groups_of(parallel)
    layer = _layer(model, run, parallel, machine, first)
    body = _stage(model, run, parallel, machine, first, layer, groups)
    head = _head(model, run, parallel, machine, first)
    front = msgspec.structs.replace(body, **_plus(body, _embedding(model, run, machine, first)))
    end = msgspec.structs.replace(body, **_plus(body, head))
    both = msgspec.structs.replace(front, **_plus(front, head))
    single = parallel.pp == 1
    m, p, v = first.micro_batches, parallel.pp, parallel.vp
    slowest = where(single, both.total, larger(front.total, end.total))
    # One micro-batch passes through every stage; the others follow behind the slowest one.
    through = where(single, both.total, front.total + end.total + (p - 2) * body.total)
    hop = 2 * transfer(machine, groups["pp"].stride, _boundary(model, run, parallel, first))
    hop = where(single, 0.0, hop)
    pipeline = m * slowest + (through - slowest) / v + hop * ((p - 1) + v * m * machine.coefficients.transfer)
    bubble = (through - slowest) / v
    exposed = where(single, both.exposed, larger(front.exposed, end.exposed)) * m
    host = where(single, both.host, larger(front.host, end.host)) * m
    sync = _synchronise(run, parallel, machine, first, last, body, groups)
    update = _update(run, machine, first, last)
    nodes = larger(parallel.world_size / machine.gpus_per_node, 1.0)
    slow = 1 + machine.coefficients.straggler * logarithm2(nodes)
    communication = exposed + hop * ((p - 1) + v * m * machine.coefficients.transfer) + sync
    compute = pipeline - bubble - exposed - host - hop * ((p - 1) + v * m * machine.coefficients.transfer)
    return StepBreakdown(
        compute=compute * slow,
        exposed_communication=communication * slow,
        bubble=bubble * slow,
        optimizer=update,
        host=host * slow + machine.coefficients.step,
    )


def _plus(stage: StageTime, more: StageTime) -> dict[str, float]:
    return {
        "forward": stage.forward + more.forward,
        "backward": stage.backward + more.backward,
        "exposed": stage.exposed + more.exposed,
        "host": stage.host + more.host,
    }


def _layer(model: ModelSpec, run: RunSpec, parallel: ParallelDims, machine: Machine, ledger: Ledger) -> LayerTime:
    length = tokens_of(model, run)
    tokens = run.micro_batch * length / parallel.cp  # type: ignore[operator]
    sequence = parallel.tp if parallel.sequence_parallel else 1.0
    return layer_time(model, run, ledger.recipe, machine, tokens, length, parallel.tp, sequence, parallel.ep)


def _stage(
    model: ModelSpec,
    run: RunSpec,
    parallel: ParallelDims,
    machine: Machine,
    ledger: Ledger,
    layer: LayerTime,
    groups: dict[str, Group],
) -> StageTime:
    """Return the blocks of one stage: kernels, collectives between them, launches."""
    layers = float(model.layers or 0) / parallel.pp
    share = recomputed_share(model, run)
    again = {"none": 0.0, "selective": 0.0, "full": share * layer.forward, "op": 0.5 * layer.forward}[run.recompute]
    if run.recompute == "selective":
        again = layer.attention if run.attention in ("eager", "math") else 0.0
    passes = {"full": 2.0 + share, "op": 2.5}.get(run.recompute, 2.0)
    inside = _inside(model, run, parallel, machine, ledger, layer, groups, passes)
    work = layer.forward + layer.backward + again
    launches = layer.launches * (3.0 + (passes - 2.0))
    waiting = larger(launches * machine.coefficients.host - work - inside, 0.0)
    return StageTime(
        forward=layers * layer.forward,
        backward=layers * (layer.backward + again),
        exposed=layers * inside,
        host=layers * waiting,
    )


def _inside(
    model: ModelSpec,
    run: RunSpec,
    parallel: ParallelDims,
    machine: Machine,
    ledger: Ledger,
    layer: LayerTime,
    groups: dict[str, Group],
    passes: float,
) -> float:
    """Return the exposed collectives of one block and micro-batch.

    Tensor parallel: two all-reduces of the stream each way (or a gather and a scatter each, of the same bytes). Context
    parallel: keys and values go round while attention runs. Experts: two exchanges each way. Fully sharded: weights are
    gathered for every pass and gradients scattered, beside the block before.
    """
    hidden, w = float(model.hidden or 0), ledger.recipe.matmul
    tokens = run.micro_batch * tokens_of(model, run) / parallel.cp  # type: ignore[operator]
    stream = tokens * hidden * w
    exposed = passes * 2 * all_reduce(machine, groups["tp"], stream)
    _, keys = attention_width(model)
    ring = passes * gather(machine, groups["cp"], 2 * w * keys / parallel.tp * tokens * parallel.cp)
    exposed = exposed + larger(ring - layer.attention * passes, 0.0)
    if model.experts:
        sent = stream * float(model.experts_per_token or 1)
        exposed = exposed + passes * 2 * exchange(machine, groups["ep"], sent)
    if parallel.zero_stage >= 3:
        block = ledger.share.block * ledger.recipe.compute
        fetch = gather(machine, groups["dp_shard"], block)
        scatter = gather(machine, groups["dp_shard"], ledger.share.block * ledger.recipe.gradient)
        slowed = machine.coefficients.contention
        ahead = larger(fetch - layer.forward, 0.0) + slowed * smaller(fetch, layer.forward)
        behind = layer.backward + (recomputed_share(model, run) * layer.forward if run.recompute == "full" else 0.0)
        back = larger(fetch + scatter - behind, 0.0) + slowed * smaller(fetch + scatter, behind)
        exposed = exposed + where(parallel.dp_shard * parallel.cp > 1, ahead + back, 0.0)
    return exposed


def _head(model: ModelSpec, run: RunSpec, parallel: ParallelDims, machine: Machine, ledger: Ledger) -> StageTime:
    """Return the output matrix and the loss.

    Eager cross entropy reads and writes logits about nine times forward and backward, mostly in fp32 (copy, log-softmax,
    its gradient); fused ones two or three times.
    """
    hidden, vocab = float(model.hidden or 0), float(model.vocab or model.classes or 0)
    samples = run.micro_batch * 1.0  # type: ignore[operator]
    tokens = samples * tokens_of(model, run) / parallel.cp if model.vocab else samples
    columns = vocab / where(parallel.tp > 0, parallel.tp, 1) if _split_head(run, parallel) else vocab
    w = ledger.recipe.matmul
    product = matmul_seconds(machine, tokens, columns, hidden, w) if vocab else 0.0
    back = product + matmul_seconds(machine, hidden, columns, tokens, w) if vocab else 0.0
    wide = {"eager": 36.0, "chunked": 30.0, "fused": 10.0, "parallel": 24.0}[run.cross_entropy]
    loss = traffic_seconds(machine, wide * tokens * columns, 12.0)
    return StageTime(forward=product + loss / 2, backward=back + loss / 2, exposed=0.0, host=0.0)


def _split_head(run: RunSpec, parallel: ParallelDims) -> bool:
    return parallel.framework == "megatron" or run.cross_entropy == "parallel"


def _embedding(model: ModelSpec, run: RunSpec, machine: Machine, ledger: Ledger) -> StageTime:
    """Return the lookup and its gradient, which is added into a table of zeros."""
    hidden, w = float(model.hidden or 0), ledger.recipe.residual
    tokens = run.micro_batch * tokens_of(model, run)  # type: ignore[operator]
    moved = traffic_seconds(machine, 3 * w * tokens * hidden, 4.0)
    table = ledger.share.embedding * ledger.recipe.parameter / machine.bandwidth
    return StageTime(forward=moved, backward=2 * moved + table, exposed=0.0, host=0.0)


def _boundary(model: ModelSpec, run: RunSpec, parallel: ParallelDims, ledger: Ledger) -> float:
    """Return the bytes between two stages for one micro-batch and rank."""
    tokens = run.micro_batch * tokens_of(model, run) / parallel.cp  # type: ignore[operator]
    divided = parallel.tp if parallel.sequence_parallel or parallel.framework == "megatron" else 1.0
    return tokens * float(model.hidden or 0) * ledger.recipe.residual / divided


def _synchronise(
    run: RunSpec,
    parallel: ParallelDims,
    machine: Machine,
    first: Ledger,
    last: Ledger,
    body: StageTime,
    groups: dict[str, Group],
) -> float:
    """Return the exposed reduction of gradients, and the gathering of updated parameters.

    A reduction runs beside the last micro-batch's backward pass as far as the framework lets it.
    """
    local = larger(first.share.trainable, last.share.trainable)
    width = first.recipe.gradient
    if parallel.zero_stage >= 3:
        outer = all_reduce(machine, groups["dp_replicate"], width * local / (parallel.dp_shard * parallel.cp))
        return larger(outer - machine.coefficients.hidden * body.backward, 0.0)
    whole = width * local
    if parallel.zero_stage == 0:
        seconds = all_reduce(machine, groups["dp"], whole)
        return larger(seconds - machine.coefficients.hidden * body.backward, 0.05 * seconds)
    scatter = gather(machine, groups["dp_shard"], whole)
    scatter = scatter + all_reduce(machine, groups["dp_replicate"], whole / (parallel.dp_shard * parallel.cp))
    updated = gather(machine, groups["dp_shard"], first.recipe.compute * local)
    return larger(scatter - machine.coefficients.hidden * body.backward, 0.05 * scatter) + updated


def _update(run: RunSpec, machine: Machine, first: Ledger, last: Ledger) -> float:
    """Return the optimizer's step: every state is read and written, gradients read and zeroed.

    A fused kernel passes once over them; multi-tensor ones write their temporaries between the kernels.
    """
    states = larger(first.states.optimizer, last.states.optimizer)
    gradients = larger(first.states.gradients, last.states.gradients)
    weights = larger(first.states.parameters, last.states.parameters)
    passes = 2.0 if not run.foreach or run.stack == "megatron" else 4.0
    size = passes * states + 3.0 * gradients + (passes - 1) * weights
    if run.clipping:
        size = size + 3.0 * gradients
    return traffic_seconds(machine, size, 40.0)
