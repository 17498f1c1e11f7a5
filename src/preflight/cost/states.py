"""Bytes of parameters, gradients and optimizer states on one rank."""

from __future__ import annotations

import msgspec

from preflight.cost.numeric import larger, smaller, where
from preflight.cost.optimizers import OptimizerState
from preflight.cost.parameters import feed_forward
from preflight.cost.recipe import Recipe
from preflight.cost.shares import Share, expert_tensor
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec

# DeepSpeed's defaults: reduce_bucket_size and allgather_bucket_size of 5e8 elements.
_DEEPSPEED_BUCKET = 5e8
# 4-bit NF4: half a byte and an fp32 scale per 64 weights; quantised again: a byte per 64 and an fp32 per 16384.
NF4_BYTES = 0.5 + 4 / 64
NF4_DOUBLE_BYTES = 0.5 + 1 / 64 + 4 / (64 * 256)


class States(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes on one rank.

    Attributes:
        parameters: Weights that stay (shards, fp32 copies are in ``optimizer``), with an EMA copy and frozen networks beside them.
        gradients: All gradients once the backward pass is over.
        gradients_summed: What gradients take while micro-batches add up, before they are reduced: as ``gradients``, but
            whole under FSDP in a pipeline, which reduces them behind the last micro-batch (torch's pipeline stages).
        gradients_persist: Whether they lie there from the start.
        optimizer: States and fp32 copies once they exist.
        optimizer_at_start: The part of them that exists before the first step.
        temporaries: What the optimizer's step allocates for a moment.
        buffers: Buckets of gradient reduction that stay.
        gathered_forward: Weights gathered around a forward pass. gathered_backward: The same around a backward pass,
            with the input of the reduce-scatter.
        host: Bytes that lie in the host's memory instead.
    """

    parameters: float
    gradients: float
    gradients_summed: float
    gradients_persist: bool
    optimizer: float
    optimizer_at_start: float
    temporaries: float
    buffers: float
    gathered_forward: float
    gathered_backward: float
    host: float = 0.0


def sharding_ranks(parallel: ParallelDims) -> float:
    """Return the ranks that states are divided over: those of sharded data and of context parallelism together.

    Megatron's distributed optimizer divides over the data-parallel group with its context-parallel ranks, torchtitan's
    FSDP over the mesh axis ``dp_shard_cp``.
    """
    return parallel.dp_shard * parallel.cp if parallel.zero_stage else parallel.dp_shard


def weight_bytes(model: ModelSpec, run: RunSpec, share: Share, recipe: Recipe) -> float:
    """Return the bytes of the weights before sharding; frozen ones may be quantised (QLoRA, Dettmers et al. 2023)."""
    if run.finetune != "qlora":
        # What is kept in 8 bits, or cast to them, are the blocks; embedding and output stay in 16.
        others = (recipe.compute if run.fp8_weights else recipe.parameter) * (share.parameters - share.blocks)
        return (recipe.parameter + recipe.weight_cache) * share.blocks + others
    packed = NF4_DOUBLE_BYTES if run.double_quantization else NF4_BYTES
    quantized = share.parameters - share.trainable - share.embedding
    if not run.quantized_head:
        quantized -= share.head
    plain = share.parameters - share.trainable - quantized
    return quantized * packed + plain * 2.0 + share.trainable * recipe.parameter


def state_bytes(share: Share, recipe: Recipe, optimizer: OptimizerState, hidden: float) -> float:
    """Return the bytes of the optimizer's states for the trainable parameters, fp32 copies included."""
    per_parameter = optimizer.full * recipe.state + recipe.master
    if not optimizer.paged:
        per_parameter += optimizer.bytes
    else:
        per_parameter = recipe.master
    total = share.trainable * per_parameter
    if optimizer.factored and hidden:
        # A matrix of H columns keeps rows + columns: P/H rows and, for square ones, as many columns.
        total += 2 * share.trainable / hidden * recipe.state
    return total


def states_of(
    model: ModelSpec, run: RunSpec, parallel: ParallelDims, share: Share, recipe: Recipe, optimizer: OptimizerState
) -> States:
    """Return the bytes of states on one rank.

    Sources: ZeRO (Rajbhandari et al. 2020) for what each stage divides; torch DDP's reducer (buckets beside the
    gradients unless they are views of them); torch FSDP's documentation (gathered groups, prefetch, fp32 reduce).
    """
    stage, ranks = parallel.zero_stage, sharding_ranks(parallel)
    # Ranks that hold the same experts: those of one pipeline stage over ep x etp.
    expert_ranks = larger(ranks * parallel.tp / (parallel.ep * expert_tensor(parallel)), 1.0)
    experts = share.experts / larger(share.parameters, 1.0)
    over = 1.0 / ranks * (1 - experts) + experts / expert_ranks
    weights = weight_bytes(model, run, share, recipe)
    gradients = recipe.gradient * share.trainable
    optimizer_bytes = state_bytes(share, recipe, optimizer, float(model.hidden or 0))
    temporaries = optimizer.temporaries * recipe.state * share.trainable if run.foreach else 0.0
    if stage >= 1:
        optimizer_bytes *= over
        temporaries *= over
    if run.fused_backward:
        gradients = recipe.gradient * larger(share.block, share.embedding)
        temporaries = 0.0
    if stage >= 2:
        gradients *= over
    if optimizer.unpacked:
        temporaries += optimizer.unpacked * _largest_matrix(model, parallel, share) * (over if stage >= 1 else 1.0)
    if run.ema:
        weights += recipe.parameter * share.parameters
    if stage >= 3:
        weights *= over
    beside = recipe.parameter * run.frozen_beside
    host = 0.0
    if run.offload in ("optimizer", "parameters"):
        # The host updates: it holds the states and takes every gradient (Ren et al. 2021; FSDP's CPU offload).
        host = optimizer_bytes + gradients
        optimizer_bytes = temporaries = 0.0
    if run.offload == "parameters":
        host, weights = host + weights, 0.0
        gradients = recipe.gradient * share.block * (over if stage >= 3 else 1.0)  # one block's, on their way
    summed = gradients
    if stage >= 2 and parallel.framework in ("fsdp1", "fsdp2") and not run.fused_backward:
        summed = where(parallel.pp > 1, recipe.gradient * share.trainable, gradients)
    forward, backward = _gathered(run, parallel, share, recipe)
    at_start = optimizer_bytes if optimizer.at_construction or recipe.eager_states else 0.0
    if recipe.master and not (optimizer.at_construction or recipe.eager_states) and run.offload == "none":
        at_start = recipe.master * share.trainable * (over if stage >= 1 else 1.0)
    return States(
        parameters=weights + beside,
        gradients=gradients,
        gradients_summed=summed,
        gradients_persist=recipe.persistent_gradients or run.gradients_stay,
        optimizer=optimizer_bytes,
        optimizer_at_start=at_start,
        temporaries=temporaries,
        buffers=_buffers(run, parallel, share, recipe),
        gathered_forward=forward,
        gathered_backward=backward,
        host=host,
    )


def _largest_matrix(model: ModelSpec, parallel: ParallelDims, share: Share) -> float:
    """Return the elements of the largest parameter of a rank: the table of tokens, or a feed-forward matrix."""
    inner = float(model.hidden or 0) * feed_forward(model) / parallel.tp
    return larger(share.embedding, share.head, inner)


def _buffers(run: RunSpec, parallel: ParallelDims, share: Share, recipe: Recipe) -> float:
    """Return the buckets that stay allocated."""
    if parallel.framework == "deepspeed" and parallel.zero_stage >= 1:
        # overlap_comm keeps two reduce buckets; stages 1 and 2 gather updated weights through one more.
        buckets = 2 if parallel.zero_stage >= 3 else 3
        return buckets * recipe.gradient * smaller(_DEEPSPEED_BUCKET, share.trainable)
    if parallel.framework in (None, "ddp") and not run.gradient_as_bucket_view:
        return where(parallel.dp_replicate > 1, recipe.gradient * share.trainable, 0.0)
    return 0.0


def _gathered(run: RunSpec, parallel: ParallelDims, share: Share, recipe: Recipe) -> tuple[float, float]:
    """Return the gathered weights around the end of forward and around backward, with the reduce-scatter input.

    FSDP keeps the root group (embedding, output matrix, norms) from forward to backward, the last block is not
    released, the next one is fetched ahead; gradients of a block are reduced from a full fp32 or low-precision buffer.
    """
    if parallel.zero_stage < 2:
        return 0.0, 0.0
    sharded = sharding_ranks(parallel) > 1
    width = recipe.compute
    trainable = share.trainable / larger(share.parameters, 1.0)
    reduce = recipe.gradient * share.block * trainable
    if parallel.zero_stage == 2:
        if parallel.framework in ("fsdp1", "fsdp2"):
            whole = where(sharded, width * share.parameters, 0.0)
            return whole, whole + where(sharded, reduce, 0.0)
        return 0.0, 0.0
    if not parallel.reshard:
        whole = where(sharded, width * share.parameters, 0.0)
        return whole, whole + where(sharded, reduce, 0.0)
    forward = where(sharded, width * (share.root + share.block), 0.0)
    return forward, where(sharded, width * 2 * share.block + reduce, 0.0)
