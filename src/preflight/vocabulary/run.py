"""Run words: how a model is trained and how it is spread."""

from __future__ import annotations

from typing import Literal

import msgspec

Precision = Literal[
    "fp32", "tf32", "autocast-fp16", "autocast-bf16", "bf16", "pure-bf16", "pure-fp16", "fp16", "fp8", "fp64"
]
Attention = Literal["flash", "efficient", "math", "cudnn", "eager"]
Recompute = Literal["none", "full", "selective", "op"]
Stack = Literal["eager", "compile", "megatron", "transformers"]
Schedule = Literal["1f1b", "gpipe", "zb1p", "zb2p"]
CrossEntropy = Literal["eager", "fused", "chunked", "parallel"]


class ParallelDims(msgspec.Struct, frozen=True, kw_only=True):
    """How a run is spread over GPUs. Every degree is at least 1.

    Attributes:
        dp_replicate: Copies of the model that hold full states (DDP, the outer group of HSDP).
        dp_shard: Ranks over which states are sharded (ZeRO, FSDP).
        zero_stage: What is sharded over ``dp_shard``: 0 nothing, 1 optimizer states, 2 also gradients, 3 also parameters.
        cp: Context parallel. tp: Tensor parallel. pp: Pipeline parallel. vp: Virtual stages per rank. ep: Expert parallel.
        etp: Tensor-parallel degree of the experts, when it is not ``tp``.
        schedule: Order of forward and backward passes of a pipeline; interleaved where ``vp`` is above 1.
        reshard: Whether gathered weights are given back after each forward pass (FSDP, stage 3).
        first_layers: Blocks of the first stage, last_layers: of the last one, where they have not their even share.
        framework: Who shards: ``ddp``, ``fsdp1``, ``fsdp2``, ``deepspeed``, ``megatron``; None for a single GPU.
    """

    dp_replicate: int = 1
    dp_shard: int = 1
    zero_stage: int = 0
    cp: int = 1
    tp: int = 1
    pp: int = 1
    vp: int = 1
    ep: int = 1
    etp: int | None = None
    sequence_parallel: bool = False
    schedule: Schedule = "1f1b"
    reshard: bool = True
    first_layers: int | None = None
    last_layers: int | None = None
    framework: str | None = None

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self.dp_replicate * self.dp_shard * self.cp * self.tp * self.pp


class RunSpec(msgspec.Struct, frozen=True, kw_only=True):
    """How a model is trained, in numbers. What is not known is None.

    Attributes:
        micro_batch: Samples per GPU per forward.
        sequence_length: Tokens per sample (the longest, where lengths vary).
        length_schedule: (first step, tokens) of a length that changes at known steps (a curriculum), in order.
        variable_length: Whether lengths vary, so that the peak is at the longest sample.
        image_size: Side of the image in pixels.
        gradient_accumulation: Micro-batches per optimizer step.
        lora_targets: Matrices with adapters: ``q``, ``k``, ``v``, ``o``, ``mlp``, ``head``.
        lora_dropout: Dropout before the adapters: a copy and a mask of every adapted input.
        double_quantization: Whether the constants of 4-bit weights are quantised again (``qlora``).
        quantized_head: Whether the output matrix is 4-bit too (``qlora``; most libraries leave it in 16 bits).
        quantized_inputs: Whether 4-bit products keep their input, until the graph itself is gone (bitsandbytes before
            0.43.2); ``longest_first``: whether the longest batch is the first, so that no graph of its size precedes it.
        unpacked_copies: 16-bit copies of a 4-bit matrix that exist at once while it is multiplied (2 where it is unpacked
            into another type than the product's).
        gradient_as_bucket_view: Whether DDP's buckets are the gradients (no second copy).
        gradients_stay: Whether gradients are zeroed and not released between steps (``zero_grad(set_to_none=False)``).
        logits_released: Whether nothing of the loop names the logits while the backward pass runs.
        fused_backward: Whether each gradient is consumed as soon as it exists (optimizer step inside the backward pass).
        deterministic: Whether torch's deterministic algorithms are asked for, which need 32 MiB workspaces.
        torch: Version of PyTorch, ``2.11``; the newest when None.
        cuda_graphs: Whether forward and backward passes are replayed as CUDA graphs, whose pools of memory stay.
        fp8_weights: Whether the weights themselves are 8 bits wide (``fp8``), beside the optimizer's fp32 copy.
        tensor_overlap: Whether tensor-parallel communication runs in Transformer Engine's user buffers beside products.
        expert_imbalance: Tokens of the fullest rank's experts over the mean (MoE); 1 is perfect balance.
        expert_capacity: Tokens that an expert takes over the mean, beyond which they are dropped; None drops none.
        expert_grouping: Whether the products of several experts run as one group (MoE, Megatron).
        expert_padding: Whether every expert is filled up to its capacity.
        cross_entropy_chunks: Pieces of the chunked cross entropy.
        logits_upcast: Whether the logits are turned into fp32 before the loss.
        loss_compiled: Whether the loss is a part of what is compiled, so that its softmax is never written (``compile``).
        lora_rank: Rank of the adapters when ``finetune`` is ``lora`` or ``qlora``.
        trainable_parameters: Parameters that get a gradient; None means all.
        frozen_blocks: Blocks at the front that keep nothing, as they and all before them are frozen; 0 where only what stands
            before the blocks is, None where nothing is.
        frozen_beside: Parameters of frozen networks that lie in memory beside the model, whole on every rank.
        recompute_layers: Blocks that full recomputation covers; None means all of them.
        foreach: Whether the optimizer and clipping use multi-tensor kernels (temporaries of the size of the parameters).
        evaluation_micro_batch: Samples per forward of an evaluation phase, or None where there is none.
        evaluation_without_no_grad: Whether an evaluation records gradients, and so keeps what a backward pass would need.
        evaluation_keeps_last: Whether what the batch before has recorded is still held while the next one is computed.
        evaluation_precision: That of an evaluation where it is another: outside of the autocast around the training.
        evaluation_recomputes: Whether an evaluation recomputes as the training does; models of transformers do not.
        loader_workers: Processes of the loader on every data-parallel rank; 0 loads in the training process.
        sample_seconds: What one of them needs for a sample; None where that is not known, and nothing is waited for.
        kept_bytes_per_step: Growth per step from values that are kept (with or without graph).
        activation_factor: Activations that were measured over what the formula says; 1 where nothing was measured.
        held_share: What the allocator holds beside what it has handed out, as a share of that; None for the usual.
    """

    micro_batch: int | None = None
    global_batch: int | None = None
    sequence_length: int | None = None
    target_length: int | None = None
    variable_length: bool = False
    length_schedule: tuple[tuple[int, int], ...] = ()
    image_size: int | None = None
    gradient_accumulation: int = 1
    precision: Precision = "fp32"
    optimizer: str | None = None
    optimizer_momentum: float | None = None
    attention: Attention = "flash"
    recompute: Recompute = "none"
    recompute_layers: int | None = None
    stack: Stack = "eager"
    loss_compiled: bool = False
    cross_entropy: CrossEntropy = "eager"
    finetune: Literal["full", "lora", "qlora", "frozen"] = "full"
    lora_rank: int | None = None
    lora_targets: tuple[str, ...] = ("q", "v")
    lora_dropout: float = 0.0
    double_quantization: bool = False
    quantized_head: bool = False
    quantized_inputs: bool = False
    longest_first: bool = False
    unpacked_copies: int = 1
    gradient_as_bucket_view: bool = False
    gradients_stay: bool = False
    logits_released: bool = False
    fused_backward: bool = False
    cross_entropy_chunks: int = 8
    deterministic: bool = False
    torch: str | None = None
    cuda_graphs: bool = False
    fp8_weights: bool = False
    tensor_overlap: bool = False
    expert_imbalance: float = 1.0
    expert_capacity: float | None = None
    expert_padding: bool = False
    expert_grouping: bool = True
    logits_upcast: bool = True
    trainable_parameters: int | None = None
    frozen_blocks: int | None = None
    frozen_beside: float = 0.0
    offload: Literal["none", "optimizer", "parameters", "activations"] = "none"
    foreach: bool = True
    clipping: bool = False
    ema: bool = False
    evaluation_micro_batch: int | None = None
    evaluation_without_no_grad: bool = False
    evaluation_keeps_last: bool = False
    evaluation_precision: Precision | None = None
    evaluation_recomputes: bool = True
    loader_workers: int | None = None
    sample_seconds: float | None = None
    kept_bytes_per_step: float = 0.0
    activation_factor: float = 1.0
    held_share: float | None = None
    steps: int | None = None

    @property
    def samples(self) -> float:
        """Samples of a micro-batch as formulas use them: a number, or one for each layout where many are computed at once.

        Raises:
            ValueError: The batch size is not known.
        """
        if self.micro_batch is None:
            raise ValueError("the batch size is not known")
        return 1.0 * self.micro_batch


def recompute_setting(run: RunSpec) -> str:
    """Return what is recomputed as ``--recompute`` takes it: ``full:12`` for twelve blocks."""
    return run.recompute if run.recompute_layers is None else f"{run.recompute}:{run.recompute_layers}"
