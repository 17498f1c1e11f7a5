"""Seconds of one micro-batch on one pipeline stage: blocks, the collectives inside them, embedding, output and loss."""

from __future__ import annotations

import msgspec

from preflight.cost.alignment import aligned_share
from preflight.cost.attention_time import FLASH_BACKWARD
from preflight.cost.collectives import Group, all_reduce, exchange, gather, transfer
from preflight.cost.flops import flops_per_sample
from preflight.cost.kernels import matmul_seconds, traffic_seconds
from preflight.cost.layer_time import LayerTime, layer_time
from preflight.cost.ledger import Ledger
from preflight.cost.machine import Machine
from preflight.cost.numeric import larger, smaller, where
from preflight.cost.parameters import attention_width, expert_share, head_kind, vision_tokens
from preflight.cost.saved import recomputed_share
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec

# Operators that fully sharded data parallelism adds to a block: copies, waits and hooks for each gathering and scattering.
_SHARDING = 40.0
# Host work of saving and restoring the states of random generators around a recomputed block, in operators.
_CHECKPOINT = 20.0
# What is left of the host's work where kernels are replayed as a graph: one call for many of them.
_REPLAYED = 0.02
# Operators of embedding, final norm, output matrix and loss, forward; as many again backward.
_HEAD, _EMBEDDING = 25.0, 8.0


class StageTime(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of one micro-batch on one pipeline stage.

    Attributes:
        forward: Kernels. backward: Kernels, with what is recomputed.
        exposed: Collectives inside the layers that nothing hides, both ways.
        operators: What the host dispatches, both ways.
        host: Seconds that the GPU waits for it.
    """

    forward: float
    backward: float
    exposed: float
    operators: float
    host: float = 0.0

    @property
    def total(self) -> float:
        """Everything."""
        return self.forward + self.backward + self.exposed + self.host

    def __add__(self, more: StageTime) -> StageTime:
        """Return both on one stage."""
        return StageTime(
            forward=self.forward + more.forward,
            backward=self.backward + more.backward,
            exposed=self.exposed + more.exposed,
            operators=self.operators + more.operators,
        )

    def scaled(self, factor: float) -> StageTime:
        """Return a stage with so many times the blocks."""
        return StageTime(
            forward=self.forward * factor,
            backward=self.backward * factor,
            exposed=self.exposed * factor,
            operators=self.operators * factor,
        )

    def waited(self, machine: Machine, replayed: bool = False) -> StageTime:
        """Return the stage with the time that its GPU waits for the host, which may replay graphs of kernels."""
        asked = self.operators * machine.operator * (_REPLAYED if replayed else 1.0)
        idle = larger(asked - self.forward - self.backward - self.exposed, 0.0)
        return msgspec.structs.replace(self, host=idle)


def tokens_of(model: ModelSpec, run: RunSpec) -> float:
    """Return the tokens of one sample."""
    if model.family == "vision_transformer":
        return vision_tokens(model, run.image_size or model.image_size) or 0.0
    return float(run.sequence_length or 0)


def block_tokens(model: ModelSpec, run: RunSpec) -> float:
    """Return the tokens of one sample in a block of the first stack: an encoder of audio reads frames, not the text."""
    return float(model.source_positions or 0) or tokens_of(model, run)


def depth_of(model: ModelSpec, run: RunSpec) -> float:
    """Return how many blocks of the encoder's kind a model is worth.

    A decoder behind an encoder has cross attention and another length: its blocks count by their FLOP.
    """
    layers = float(model.layers or 0)
    if model.family != "encoder_decoder":
        return layers
    plain = msgspec.structs.replace(model, head="none")
    block = msgspec.structs.replace(plain, family="transformer_encoder", layers=1, decoder_layers=None)
    whole = flops_per_sample(plain, run.sequence_length, target_length=run.target_length)
    one = flops_per_sample(block, run.sequence_length)
    return whole.forward / one.forward if whole is not None and one is not None else layers


def block_time(model: ModelSpec, run: RunSpec, parallel: ParallelDims, machine: Machine, ledger: Ledger) -> LayerTime:
    """Return the seconds of one block on one rank, the mean one where blocks differ."""
    length = block_tokens(model, run)
    tokens = run.samples * length / parallel.cp
    sequence = parallel.tp if parallel.sequence_parallel else 1.0
    return layer_time(
        model, run, ledger.recipe, machine, tokens, length, parallel.tp, sequence, parallel.ep, parallel.cp,
        parallel.framework,
    )  # fmt: skip


def body_time(
    model: ModelSpec,
    run: RunSpec,
    parallel: ParallelDims,
    machine: Machine,
    ledger: Ledger,
    layer: LayerTime,
    groups: dict[str, Group],
) -> StageTime:
    """Return the blocks of one stage: kernels, collectives between them, launches."""
    layers = depth_of(model, run) / parallel.pp
    share = recomputed_share(model, run)
    again = {"none": 0.0, "selective": 0.0, "full": share * layer.forward, "op": 0.5 * layer.forward}[run.recompute]
    if run.recompute == "selective":
        again = layer.attention if run.attention in ("eager", "math") else 0.0
    extra = {"full": share, "op": 0.5}.get(run.recompute, 0.0)
    inside = _inside(model, run, parallel, machine, ledger, layer, groups, 2.0 + extra)
    operators = layer.operators * (1 + extra) + layer.operators_behind
    operators = operators + (_CHECKPOINT if run.recompute == "full" and model.dropout else 0.0)
    calls = 2 * (2.0 + extra) * machine.coefficients.tensor
    operators = operators + where(parallel.tp > 1, calls, 0.0)
    if parallel.zero_stage >= 3:
        operators = operators + _SHARDING * 2.5
    return StageTime(
        forward=layers * layer.forward,
        backward=layers * (layer.backward + again),
        exposed=layers * inside,
        operators=layers * operators,
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
    tokens = run.samples * block_tokens(model, run) / parallel.cp
    stream = tokens * hidden * w
    exposed = _tensor(run, parallel, machine, layer, 2 * all_reduce(machine, groups["tp"], stream), passes)
    _, keys = attention_width(model)
    ring = _around(machine, groups["cp"], layer, 2 * w * keys / parallel.tp * tokens, passes)
    exposed = exposed + ring
    if model.experts:
        sent = stream * float(model.experts_per_token or 1)
        exposed = exposed + expert_share(model) * passes * 2 * exchange(machine, groups["ep"], sent)
    if parallel.zero_stage >= 3:
        exposed = exposed + _sharded(model, passes, parallel, machine, ledger, layer, groups)
    return exposed


def _tensor(
    run: RunSpec, parallel: ParallelDims, machine: Machine, layer: LayerTime, seconds: float, passes: float
) -> float:
    """Return what tensor-parallel collectives of ``seconds`` in a pass add to a block: all of it, unless user buffers hide it.

    They send the stream in as many chunks as there are ranks, each beside the product of another one: the first has nothing
    to hide behind (Transformer Engine's ``ub_overlap``; only where the stream is divided).
    """
    if not (run.tensor_overlap and parallel.sequence_parallel):
        return passes * seconds
    chunk = seconds / parallel.tp
    ahead = larger(seconds - layer.products, chunk) + machine.coefficients.contention * smaller(seconds, layer.products)
    work = 2 * layer.products
    behind = larger(seconds - work, chunk) + machine.coefficients.contention * smaller(seconds, work)
    return (passes - 1.0) * ahead + behind


def _around(machine: Machine, group: Group, layer: LayerTime, size: float, passes: float) -> float:
    """Return what passing ``size`` bytes of keys and values around a ring of ranks adds to a block.

    Each of its steps but the last sends them on while it computes; backward their gradients travel with them, and home at
    the end, when nothing is left to compute (Liu et al. 2023, arXiv 2310.01889; Transformer Engine's ring).
    """
    reach = group.stride * group.size
    step = transfer(machine, where(reach > machine.gpus_per_node, reach, group.stride), size)
    slowed = machine.coefficients.contention
    ahead = larger(step - layer.piece, 0.0) + slowed * smaller(step, layer.piece)
    work = layer.piece * FLASH_BACKWARD
    behind = larger(2 * step - work, 0.0) + slowed * smaller(2 * step, work)
    return where(group.size > 1, (group.size - 1) * ((passes - 1.0) * ahead + behind) + step, 0.0)


def _sharded(
    model: ModelSpec,
    passes: float,
    parallel: ParallelDims,
    machine: Machine,
    ledger: Ledger,
    layer: LayerTime,
    groups: dict[str, Group],
) -> float:
    """Return what gathering weights and scattering gradients adds to a block, beside which another one computes."""
    share, block = ledger.share, ledger.share.block
    if 0 < expert_share(model) < 1:
        block = share.blocks / (share.layers * float(model.layers or 1))  # dense blocks have far fewer parameters
    fetch = gather(machine, groups["dp_shard"], block * ledger.recipe.compute)
    scatter = gather(machine, groups["dp_shard"], block * ledger.recipe.gradient)
    slowed = machine.coefficients.contention
    ahead = larger(fetch - layer.forward, 0.0) + slowed * smaller(fetch, layer.forward)
    behind = layer.backward + (passes - 2.0) * layer.forward
    back = larger(fetch + scatter - behind, 0.0) + slowed * smaller(fetch + scatter, behind)
    return where(parallel.dp_shard * parallel.cp > 1, ahead + back, 0.0)


def sharded_ends(parallel: ParallelDims, machine: Machine, ledger: Ledger, groups: dict[str, Group]) -> StageTime:
    """Return what fully sharded weights add at both ends of a micro-batch, where nothing else is left to compute.

    The root group (embedding, output matrix) and the first block are gathered before anything runs; the gradients of both
    are scattered when the backward pass has ended.
    """
    if parallel.zero_stage < 3:
        return StageTime(forward=0.0, backward=0.0, exposed=0.0, operators=0.0)
    weights = ledger.share.root + ledger.share.block
    seconds = gather(machine, groups["dp_shard"], weights * ledger.recipe.compute)
    seconds = seconds + gather(machine, groups["dp_shard"], weights * ledger.recipe.gradient)
    return StageTime(forward=0.0, backward=0.0, exposed=seconds, operators=0.0)


def head_time(model: ModelSpec, run: RunSpec, parallel: ParallelDims, machine: Machine, ledger: Ledger) -> StageTime:
    """Return the output matrix and the loss: a row of the vocabulary for every token, or of the classes for every sample.

    Eager cross entropy reads and writes logits about nine times forward and backward, mostly in fp32 (copy, log-softmax,
    its gradient); fused ones two or three times.
    """
    hidden, over_words = float(model.hidden or 0), head_kind(model) in ("lm", "mlm")
    vocab = float((model.vocab if over_words else model.classes) or 0)
    samples = run.samples
    length = float(run.target_length or 0) if model.family == "encoder_decoder" else 0.0
    tokens = samples * (length or tokens_of(model, run)) / parallel.cp if over_words else samples
    columns = vocab / parallel.tp if _split_head(run, parallel) else vocab
    w, factor = ledger.recipe.matmul, machine.coefficients.head
    product = matmul_seconds(machine, tokens, columns, hidden, w) if vocab else 0.0
    back = product + matmul_seconds(machine, hidden, columns, tokens, w) if vocab else 0.0
    if vocab and machine.tensor_cores and run.stack != "megatron" and w in (2.0, 4.0):
        # Megatron fills up the vocabulary; elsewhere it is as long as the tokenizer's.
        share = aligned_share(machine.architecture, int(w), int(vocab))
        product, back = product / share, back / share
    wide = {"eager": 36.0, "chunked": 30.0, "fused": 10.0, "parallel": 24.0}[run.cross_entropy]
    loss = traffic_seconds(machine, wide * tokens * columns, 12.0)
    return StageTime(
        forward=factor * (product + loss / 2), backward=factor * (back + loss / 2), exposed=0.0, operators=2 * _HEAD
    )


def _split_head(run: RunSpec, parallel: ParallelDims) -> bool:
    return parallel.framework == "megatron" or run.stack == "megatron" or run.cross_entropy == "parallel"


def embedding_time(
    model: ModelSpec, run: RunSpec, parallel: ParallelDims, machine: Machine, ledger: Ledger
) -> StageTime:
    """Return the lookup and its gradient, which is added into a table of zeros."""
    hidden, w = float(model.hidden or 0), ledger.recipe.residual
    tokens = run.samples * tokens_of(model, run) / parallel.cp
    moved = traffic_seconds(machine, 3 * w * tokens * hidden, 4.0)
    table = ledger.share.embedding * ledger.recipe.parameter / machine.bandwidth
    return StageTime(forward=moved, backward=2 * moved + table, exposed=0.0, operators=2 * _EMBEDDING)
