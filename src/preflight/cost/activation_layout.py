"""What decides which tensors a transformer block keeps: element sizes, kernels, and how the run is spread."""

from __future__ import annotations

from typing import Any

import msgspec

from preflight.cost.numeric import where
from preflight.cost.recipe import Recipe
from preflight.cost.shares import expert_tensor
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """What decides which tensors are saved.

    Attributes:
        matmul: Bytes of an element that a matrix multiplication reads or writes.
        input: Bytes of an element of the input that a fused matrix multiplication keeps (1 with fp8).
        residual: Bytes of an element of the stream between blocks.
        mask: Bytes of an element of a dropout mask (1 on CUDA; the CPU keeps the factor in the tensor's type).
        dropout: Whether dropout is active.
        trained: Whether the matrices are trained (a frozen one does not keep its input).
        adapters: Matrices with adapters, which keep their input.
        adapter_dropout: Whether the adapters' inputs pass a dropout of their own.
        quantized: Whether a 4-bit product keeps its input (bitsandbytes' did, for its own backward).
        unpacked: Bytes per element that a 4-bit matrix takes for the time of a product.
        quadratic: Whether the attention matrix is materialised.
        expanded: Whether keys and values are repeated for every query head.
        upcast_softmax: Whether a low-precision softmax is taken in fp32.
        style: ``eager``, ``compile`` or ``megatron``.
        tensor: Tensor-parallel degree. sequence: Degree over which the stream is divided (sequence parallel).
        expert_tensor: Tensor-parallel degree of the experts.
        expert_rows: Rows that come to this rank's experts for every chosen expert of a token of the micro-batch: each
            of ``tensor`` ranks sends its part of a divided stream to ``expert_tensor`` ranks; times the imbalance.
        ring: Whether attention passes keys and values around a ring of context-parallel ranks.
    """

    matmul: float
    residual: float
    input: float | None = None
    mask: float = 1.0
    dropout: bool = False
    trained: bool = True
    adapters: frozenset[str] = frozenset()
    adapter_dropout: bool = False
    quantized: bool = False
    unpacked: float = 0.0
    quadratic: bool = False
    expanded: bool = False
    upcast_softmax: bool = True
    style: str = "eager"
    tensor: float = 1.0
    sequence: float = 1.0
    expert_tensor: float = 1.0
    expert_rows: float = 1.0
    ring: Any = False

    @property
    def kept_input(self) -> float:
        """Bytes of an element of what a matrix multiplication keeps of its input."""
        return self.matmul if self.input is None else self.input

    @property
    def gathered(self) -> float:
        """The degree over which inputs of divided products are kept divided.

        Megatron gathers a divided stream again for its backward pass; torch's own tensor parallelism keeps it gathered.
        """
        return self.sequence if self.style == "megatron" else 1.0

    @property
    def recast(self) -> bool:
        """Whether autocast turns an fp32 normalisation's output into low precision once per consumer."""
        return self.matmul != self.residual

    def keeps(self, *targets: str) -> bool:
        """Return whether the input of these matrices is kept."""
        return self.trained or self.quantized or bool(self.adapters.intersection(targets))


def layout_of(model: ModelSpec, run: RunSpec, recipe: Recipe, parallel: ParallelDims | None = None) -> Layout:
    """Return what decides which tensors are saved for a model, a run and a way to spread it."""
    parallel = parallel or ParallelDims()
    tensor = 1.0 * parallel.tp
    sequence = tensor if parallel.sequence_parallel else 1.0
    experts = expert_tensor(parallel)
    rows = where(sequence > 1, experts / sequence, 1.0)
    relative = model.family == "encoder_decoder" and not model.learned_positions
    # A relative position bias is added to the attention matrix, and needs a gradient: no flash kernel takes it.
    quadratic = run.attention in ("eager", "math") or relative or model.attention_softcap
    style = {"megatron": "megatron", "compile": "compile"}.get(run.stack, "eager")
    return Layout(
        matmul=recipe.matmul,
        residual=recipe.residual,
        input=1.0 if style == "megatron" and run.precision == "fp8" else None,
        dropout=bool(model.dropout),
        trained=run.finetune == "full",
        adapter_dropout=run.finetune in ("lora", "qlora") and run.lora_dropout > 0,
        adapters=frozenset(run.lora_targets) if run.finetune in ("lora", "qlora") else frozenset(),
        quadratic=quadratic,
        expanded=quadratic or run.attention == "efficient",
        upcast_softmax=_upcast_softmax(model, run, recipe),
        quantized=run.finetune == "qlora" and run.quantized_inputs,
        unpacked=2.0 * run.unpacked_copies if run.finetune == "qlora" else 0.0,
        style=style,
        tensor=tensor,
        sequence=sequence,
        expert_tensor=experts,
        expert_rows=rows * expert_load(run),
        ring=parallel.cp > 1,
    )


def expert_load(run: RunSpec) -> float:
    """Return the rows of the fullest rank's experts over the mean; a capacity drops what is beyond it."""
    if run.expert_capacity is not None:
        return run.expert_capacity if run.expert_padding else min(run.expert_capacity, run.expert_imbalance)
    return run.expert_imbalance


def _upcast_softmax(model: ModelSpec, run: RunSpec, recipe: Recipe) -> bool:
    """Return whether a low-precision softmax is taken in fp32: Megatron's fused kernel keeps only what it was given."""
    if run.stack == "megatron":
        return run.attention == "math"
    return recipe.cast > 0 or _softmax_in_fp32(model)


def _softmax_in_fp32(model: ModelSpec) -> bool:
    """Return whether the model's own code asks for an fp32 softmax: rotary decoders and ViT of transformers do."""
    if model.family in ("transformer_decoder", "moe"):
        return not model.learned_positions
    return model.family == "vision_transformer"
