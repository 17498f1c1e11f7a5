"""What part of a model lies on one rank."""

from __future__ import annotations

import msgspec

from preflight.cost.numeric import larger, smaller, where
from preflight.cost.parameters import (
    ParameterCount,
    attention_width,
    decoder_depth,
    decoder_side,
    feed_forward,
    head_kind,
)
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of one rank before any sharding over data-parallel ranks.

    Attributes:
        parameters: All of them.
        root: Embedding, output matrix and norms, which FSDP keeps in its outermost group.
        block: One block.
        embedding: Tables among them.
        head: The output matrix of its own among them.
        matrices: What matrix multiplications read.
        blocks: Parameters of blocks among them.
        layers: Fraction of the blocks that this rank holds.
        first: Whether the rank has the input side. last: Whether it has the output and the loss.
        index: The pipeline stage.
        experts: Routed experts among the parameters, which lie on ``ep`` ranks.
        trainable: Parameters that get a gradient.
    """

    parameters: float
    root: float
    block: float
    embedding: float
    head: float
    matrices: float
    blocks: float
    layers: float
    first: bool
    last: bool
    index: float
    experts: float
    trainable: float


def adapter_parameters(model: ModelSpec, run: RunSpec) -> float | None:
    """Count LoRA adapters: rank x (inputs + outputs) for every target matrix of every block (Hu et al. 2021).

    The matrices of a decoder's cross attention bear the names of those of its self attention: both get adapters.
    """
    if run.trainable_parameters is not None:
        return float(run.trainable_parameters)
    if run.lora_rank is None or not model.layers or not model.hidden:
        return None
    ends = model.layers * _adapted(model, run, 1) + decoder_depth(model) * _adapted(decoder_side(model), run, 2)
    head = float(model.hidden) + float(model.vocab or 0) if "head" in run.lora_targets else 0.0
    return run.lora_rank * (ends + head)


def _adapted(model: ModelSpec, run: RunSpec, attentions: int) -> float:
    """Return inputs and outputs together of the target matrices of one block."""
    hidden, width = float(model.hidden or 0), feed_forward(model)
    queries, keys = attention_width(model)
    sizes = {
        "q": attentions * (hidden + queries),
        "k": attentions * (hidden + keys),
        "v": attentions * (hidden + keys),
        "o": attentions * (queries + hidden),
        "mlp": (3 if model.gated else 2) * (hidden + width),
    }
    return sum(sizes.get(target, 0.0) for target in run.lora_targets)


def expert_tensor(parallel: ParallelDims) -> float:
    """Return the tensor-parallel degree of the experts: that of the other layers unless it is given."""
    return 1.0 * (parallel.tp if parallel.etp is None else parallel.etp)


def stage_share(model: ModelSpec, parallel: ParallelDims, first: bool, last: bool) -> float:
    """Return the part of the blocks that a stage holds: an even one, unless first or last stage are given theirs."""
    even = 1.0 / parallel.pp
    if (parallel.first_layers is None and parallel.last_layers is None) or not model.layers:
        return even
    layers = model.layers + decoder_depth(model)
    front = even if parallel.first_layers is None else parallel.first_layers / layers
    back = even if parallel.last_layers is None else parallel.last_layers / layers
    given = (parallel.first_layers is not None) + (parallel.last_layers is not None)
    ends = (front if parallel.first_layers is not None else 0.0) + (back if parallel.last_layers is not None else 0.0)
    others = (1 - ends) / larger(parallel.pp - given, 1)
    front = others if parallel.first_layers is None else front
    back = others if parallel.last_layers is None else back
    return where(parallel.pp == 1, 1.0, where(first, front, where(last, back, others)))


def share_of(model: ModelSpec, run: RunSpec, count: ParameterCount, parallel: ParallelDims, stage: float) -> Share:
    """Return the parameters of one tensor-parallel rank of a pipeline stage.

    Blocks are divided evenly over the stages; the first stage has the embedding, the last one the output matrix
    (and a second copy of a tied embedding); experts lie on ``ep`` ranks (Megatron-LM, Narayanan et al. 2021).
    """
    first, last = stage == 0, stage == parallel.pp - 1
    tensor, fraction = 1.0 * parallel.tp, stage_share(model, parallel, first, last)
    experts = count.block_experts * count.block_count * fraction / expert_tensor(parallel)
    # Dense layers of a MoE model and the blocks of a decoder have about as much that is not divided as a block.
    number = count.block_count + count.other_blocks / larger(count.block - count.block_experts, 1.0)
    whole = count.block_whole * number * fraction
    plain = (count.block - count.block_experts) * count.block_count + count.other_blocks
    local_blocks = (plain * fraction - whole) / tensor + whole + experts / parallel.ep
    holds = first
    if not count.head or head_kind(model) == "mlm":
        holds = first | last  # the tied output matrix is a copy of the embedding on another rank
    tables = count.embedding - count.positions
    embedding = where(holds, tables / tensor, 0.0) + where(first, count.positions, 0.0)
    head = where(last, (count.head - count.head_whole) / tensor + count.head_whole, 0.0)
    norm = where(last, count.norm, 0.0)
    parameters = local_blocks + embedding + head + norm
    trainable = parameters
    if run.finetune in ("lora", "qlora", "frozen"):
        adapters = adapter_parameters(model, run) or 0.0
        trainable = adapters / tensor * fraction
        parameters += trainable if run.finetune != "frozen" else 0.0
    elif run.trainable_parameters is not None:
        trainable = parameters * smaller(run.trainable_parameters / larger(count.total, 1.0), 1.0)
    own = count.block_experts / (parallel.ep * expert_tensor(parallel))
    return Share(
        parameters=parameters,
        root=embedding + head + norm,
        block=(count.block - count.block_experts) / tensor + own,
        embedding=embedding,
        head=head,
        matrices=local_blocks + (head if count.head else where(last, tables / tensor, 0.0) if count.exact else 0.0),
        blocks=local_blocks,
        layers=fraction,
        first=first,
        last=last,
        index=stage,
        experts=experts / parallel.ep,
        trainable=trainable,
    )
