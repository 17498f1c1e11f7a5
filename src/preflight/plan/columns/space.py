"""Every way to spread a run over its GPUs, as columns.

A layout has a categorical side (who shards, what is recomputed ...), which the formulas decide by ``if``, and degrees,
which they take as columns. The degrees of one product of tensor and context parallel form a rectangle: its rows hold
what a block of the model depends on (tp, cp, ep, micro-batch), its columns what only the whole step depends on (pp, vp,
the split of the data-parallel ranks). Rows have the shape (n, 1) and columns (1, m), so that NumPy works out what
depends on rows alone once for every row, and the formulas need not know.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy

from preflight.cost.parameters import is_transformer
from preflight.plan.request import Request
from preflight.vocabulary.run import ParallelDims, RunSpec

CHUNK = 4096
_STAGES = {"fsdp": ("fsdp2", 3), "hsdp": ("fsdp2", 3), "data_parallel": ("ddp", 0)}
_STAGES |= {"zero1": ("deepspeed", 1), "zero2": ("deepspeed", 2), "zero3": ("deepspeed", 3)}
_MODEL_PARALLEL = ("tensor_parallel", "pipeline_parallel", "hybrid")
# Torch's own parallelisms compose with DDP only through FSDP; Megatron-LM has every axis; DeepSpeed's engine has stages.
_AXES = {
    "ddp": frozenset(("replicate",)),
    "fsdp2": frozenset(("replicate", "tp", "pp", "vp", "cp", "ep")),
    "deepspeed": frozenset(("pp",)),
    "megatron": frozenset(("replicate", "tp", "pp", "vp", "cp", "ep")),
}
_TEXT = ("transformer_decoder", "moe", "transformer_encoder", "encoder_decoder")
_ZERO = {"ddp": (0,), "fsdp2": (2, 3), "deepspeed": (1, 2, 3), "megatron": (0, 1)}


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """Who spreads a run, and what is sharded: what decides which degrees there are."""

    framework: str | None
    zero_stage: int = 0
    sequence_parallel: bool = False


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """The categorical side of a layout."""

    family: Family
    stack: Any
    recompute: Any
    offload: Any
    cross_entropy: Any

    @property
    def partial(self) -> bool:
        """Whether it has a number of blocks that are recomputed."""
        return bool(self.recompute == "full")

    def run(self, run: RunSpec, micro_batch: Any, global_batch: Any, layers: Any) -> RunSpec:
        """Return the run of this variant with these batches and recomputed blocks."""
        return msgspec.structs.replace(
            run, stack=self.stack, recompute=self.recompute, recompute_layers=layers if self.partial else None,
            offload=self.offload, cross_entropy=self.cross_entropy, micro_batch=micro_batch, global_batch=global_batch,
        )  # fmt: skip


class Block(msgspec.Struct, frozen=True):
    """Degrees as columns.

    In a rectangle ``tp``, ``cp``, ``ep`` and ``micro_batch`` are its rows, of shape (n, 1), the others its columns, of shape
    (1, m). In a list all have the shape (n, 1).
    """

    tp: Any
    cp: Any
    ep: Any
    micro_batch: Any
    pp: Any
    vp: Any
    dp_replicate: Any
    dp_shard: Any
    recompute_layers: Any

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.tp.shape[0], self.pp.shape[1]

    @property
    def listed(self) -> bool:
        """Whether every row is a layout of its own."""
        return bool(self.pp.shape[0] > 1)

    def parallel(self, family: Family) -> ParallelDims:
        """Return the degrees as columns."""
        return ParallelDims(
            dp_replicate=self.dp_replicate, dp_shard=self.dp_shard, zero_stage=family.zero_stage, cp=self.cp, tp=self.tp,
            pp=self.pp, vp=self.vp, ep=self.ep, sequence_parallel=family.sequence_parallel, framework=family.framework,
        )  # fmt: skip

    def part(self, rows: Any, columns: Any) -> Block:
        """Return the rectangle of some rows and columns."""
        return Block(
            tp=self.tp[rows], cp=self.cp[rows], ep=self.ep[rows], micro_batch=self.micro_batch[rows], pp=self.pp[:, columns],
            vp=self.vp[:, columns], dp_replicate=self.dp_replicate[:, columns], dp_shard=self.dp_shard[:, columns],
            recompute_layers=self.recompute_layers[:, columns],
        )  # fmt: skip

    def table(self, rows: Any, columns: Any) -> Any:
        """Return degrees of single elements, one row each, in the order of ``DEGREES``."""
        across = (self.tp, self.cp, self.ep, self.micro_batch)
        along = (self.pp, self.vp, self.dp_replicate, self.dp_shard, self.recompute_layers)
        if self.listed:
            return numpy.concatenate([part[rows] for part in (*across, *along)], axis=1)
        return numpy.stack([*(part[rows, 0] for part in across), *(part[0, columns] for part in along)], axis=1)


DEGREES = Block.__struct_fields__


def listed(tables: Sequence[Any]) -> Iterator[Block]:
    """Return tables of degrees as lists that stay in the cache."""
    if tables:
        table = numpy.concatenate(tables)
        for top in range(0, len(table), CHUNK):
            yield Block(*(column[:, None] for column in table[top : top + CHUNK].T))


def divisors(number: int) -> list[int]:
    """Return all divisors in order."""
    low = [value for value in range(1, int(number**0.5) + 1) if number % value == 0]
    return low + [number // value for value in reversed(low) if value * value != number]


def families_of(request: Request) -> list[Family]:
    """Return who may spread the run: everybody, or whom the strategy names."""
    wish, gpus = request.wish, request.cluster.num_gpus
    if gpus == 1:
        return [Family(framework=None)]
    named, stage = _STAGES.get(wish.strategy or "auto", (None, None))
    if wish.strategy in _MODEL_PARALLEL:
        named = "megatron"
    named, stage = wish.framework or named, wish.zero_stage if wish.zero_stage is not None else stage
    found = []
    for framework in _AXES:
        if named not in (None, framework):
            continue
        if framework == "megatron" and named is None and not _megatron_trains(request):
            continue
        for zero in _ZERO[framework]:
            if stage not in (None, zero):
                continue
            found += [
                Family(framework=framework, zero_stage=zero, sequence_parallel=on)
                for on in _streams(request, framework)
            ]
    return found


def _megatron_trains(request: Request) -> bool:
    """Return whether Megatron-LM has a script for the model: text, and all of its parameters."""
    return request.run.finetune == "full" and request.model.family in _TEXT


def _streams(request: Request, framework: str) -> tuple[bool, ...]:
    """Return whether norms may be divided over tensor-parallel ranks."""
    if "tp" not in _AXES[framework]:
        return (False,)
    said = request.wish.sequence_parallel
    return (True, False) if said is None else (said,)


def variants_of(request: Request, family: Family) -> list[Variant]:
    """Return the categorical choices beside who spreads; what the request fixes stays."""
    run = request.run

    def options(name: str, *choices: str) -> tuple[str, ...]:
        return (getattr(run, name),) if name in request.fixed else choices

    compiled = ("eager", "compile") if is_transformer(request.model) else ("eager",)
    stacks = options(
        "stack",
        *({"megatron": ("megatron",), "deepspeed": ("eager",)}.get(family.framework or "", compiled)),
    )
    found = []
    for stack in stacks:
        # Megatron-LM refuses the fused loss that it once had.
        losses: tuple[str, ...] = ("eager", "parallel") if stack == "megatron" else ("eager", "fused", "chunked")
        if "tp" in _AXES.get(family.framework or "", ()) and stack != "megatron":
            losses = (*losses, "parallel")
        for recompute in options("recompute", *_recomputations(request, stack)):
            for loss in options("cross_entropy", *(losses if request.model.vocab else ("eager",))):
                found += [
                    Variant(family=family, stack=stack, recompute=recompute, cross_entropy=loss, offload=offload)
                    for offload in options("offload", *_offloads(request, family, recompute))
                ]
    return found


def _offloads(request: Request, family: Family, recompute: str) -> tuple[str, ...]:
    """Return what may lie on the host: optimizer states where the framework has a place for them, weights with ZeRO 3.

    FSDP2's policy takes weights, gradients and states together; Megatron-LM offloads its distributed optimizer. Activations go
    there where blocks are recomputed, so that their inputs are all there is to send (torchtune asks for both together).
    """
    if recompute == "full" and family.framework in (None, "ddp", "fsdp2") and request.model.heads:
        return (*_states_away(request, family), "activations")
    return _states_away(request, family)


def _states_away(request: Request, family: Family) -> tuple[str, ...]:
    if request.run.finetune != "full":
        return ("none",)
    weights = ("parameters",) if family.zero_stage == 3 else ()
    if family.framework == "deepspeed" or (family.framework == "megatron" and family.zero_stage):
        return ("none", "optimizer", *weights)
    return ("none", *weights)


def _recomputations(request: Request, stack: str) -> tuple[str, ...]:
    """Return kinds of recomputation.

    Only a softmax that is written out leaves something for selective recomputation; Megatron-LM has none by operator.
    """
    if not is_transformer(request.model):
        return ("none", "full") if request.model.network is not None else ("none",)
    kinds = ("none", "full") if stack == "megatron" else ("none", "full", "op")
    return (*kinds, "selective") if request.run.attention in ("eager", "math") else kinds


def _recomputed_layers(request: Request, partial: bool) -> list[int]:
    """Return of how many blocks full recomputation is tried: as given, else every eighth of them."""
    layers = request.model.layers or 8
    if not partial or not is_transformer(request.model):
        return [layers]
    if "recompute" in request.fixed:
        return [request.run.recompute_layers or layers]
    return sorted({max(layers * eighths // 8, 1) for eighths in range(1, 9)})


def blocks_of(request: Request, family: Family, partial: bool) -> Iterator[Block]:
    """Return every combination of degrees whose product is the number of GPUs, as rectangles.

    With ``partial`` for full recomputation, which may cover some of the blocks.
    """
    wish, gpus = request.wish, request.cluster.num_gpus
    axes = _AXES.get(family.framework or "", frozenset())
    if not is_transformer(request.model):
        axes = axes & {"replicate"}

    def degrees(axis: str, said: int | None, among: int = gpus) -> list[int]:
        if said is not None:
            return [said]
        return divisors(among) if axis in axes else [1]

    tensor, context = degrees("tp", wish.tensor_parallel), degrees("cp", wish.context_parallel)
    experts = request.model.experts or 1
    expert = [ep for ep in degrees("ep", wish.expert_parallel, experts) if wish.expert_parallel or gpus % ep == 0]
    micro, layers = _micro_batches(request), _recomputed_layers(request, partial)
    for product in divisors(gpus):
        rows = [
            (tp, cp, ep, size)
            for tp in tensor if product % tp == 0 and (tp > 1 or not family.sequence_parallel)
            for cp in context if tp * cp == product
            for ep in expert
            for size in micro
        ]  # fmt: skip
        columns = [(*one, count) for one in _columns(request, family, degrees, gpus // product) for count in layers]
        if rows and columns:
            yield from _chunks(rows, columns)


def _columns(request: Request, family: Family, degrees: Any, ranks: int) -> list[tuple[int, int, int, int]]:
    """Return (pp, vp, dp_replicate, dp_shard) of all ranks beside tensor and context parallel."""
    wish, found = request.wish, []
    for pp in degrees("pp", wish.pipeline_parallel):
        data = ranks // pp
        if data * pp != ranks or wish.data_parallel not in (None, data):
            continue
        chunks = [wish.virtual_pipeline] if wish.virtual_pipeline else _virtual(request, family, pp)
        found += [(pp, vp, data // shard, shard) for vp in chunks for shard in _shards(request, family, data)]
    return found


def _virtual(request: Request, family: Family, pp: int) -> list[int]:
    """Return into how many pieces the layers of a stage may be cut."""
    layers = request.model.layers or 1
    if pp == 1 or "vp" not in _AXES.get(family.framework or "", ()):
        return [1]
    # Embedding and output may count as a layer each (126 layers are 128 such pieces).
    return next((divisors(whole // pp) for whole in (layers, layers + 2) if whole % pp == 0), [1])


def _shards(request: Request, family: Family, data: int) -> list[int]:
    """Return over how many of the data-parallel ranks states may be divided."""
    if family.zero_stage == 0:
        return [1]
    if request.wish.shard_size:
        return [request.wish.shard_size] if data % request.wish.shard_size == 0 else []
    replicated = "replicate" in _AXES.get(family.framework or "", ())
    return [shard for shard in divisors(data) if shard > 1] if replicated else [data] if data > 1 else []


def _micro_batches(request: Request) -> list[int]:
    """Return samples per forward pass: as given, else every divisor of the batch."""
    run = request.run
    if run.micro_batch is not None:
        return [run.micro_batch]
    return divisors(run.global_batch) if run.global_batch else [1]


def _chunks(rows: Sequence[tuple[int, ...]], columns: Sequence[tuple[int, ...]]) -> Iterator[Block]:
    """Cut a rectangle into pieces that stay in the cache."""
    across = numpy.array(rows, dtype=numpy.float64).T[:, :, None]
    along = numpy.array(columns, dtype=numpy.float64).T[:, None, :]
    wide = min(len(columns), CHUNK)
    high = max(CHUNK // wide, 1)
    for left in range(0, len(columns), wide):
        for top in range(0, len(rows), high):
            yield Block(*(part[top : top + high] for part in across), *(part[:, left : left + wide] for part in along))
