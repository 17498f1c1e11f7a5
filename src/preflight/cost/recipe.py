"""What a precision recipe keeps per parameter, and in which widths it computes."""

from __future__ import annotations

import msgspec

from preflight.vocabulary.run import ParallelDims, RunSpec


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes per element.

    Attributes:
        parameter: The weights that the optimizer or the model holds.
        gradient: Their gradients.
        master: A second copy in fp32 beside low-precision weights.
        state: One element of an optimizer state.
        compute: The weights as the layers see them, when gathered (FSDP).
        cast: The low-precision copy that autocast caches of every matrix.
        matmul: Inputs and outputs of matrix multiplications.
        residual: The stream between the blocks.
        persistent_gradients: Whether gradients live in one buffer from the start to the end of the run.
        eager_states: Whether states are created with the optimizer and not in its first step.
        weight_cache: Extra low-precision copies of the matrices (fp8 weight and its transpose).
    """

    parameter: float
    gradient: float
    state: float
    compute: float
    matmul: float
    residual: float
    master: float = 0.0
    cast: float = 0.0
    persistent_gradients: bool = False
    eager_states: bool = False
    weight_cache: float = 0.0


def recipe_of(run: RunSpec, parallel: ParallelDims) -> Recipe:
    """Return the bytes per element of a precision.

    Sources: torch.amp documentation (autocast keeps fp32 weights and caches their casts); Megatron-LM's
    ``theoretical_memory_usage.py`` (18 bytes: bf16 weights, fp32 gradients, fp32 copy and two moments);
    DeepSpeed's ZeRO estimators (2 + 2 + 16 per parameter); torch FSDP2's MixedPrecisionPolicy (fp32 shards).
    """
    precision = run.precision
    if precision == "fp64":
        return Recipe(parameter=8, gradient=8, state=8, compute=8, matmul=8, residual=8)
    if precision in ("fp32", "tf32"):
        return Recipe(parameter=4, gradient=4, state=4, compute=4, matmul=4, residual=4)
    if precision in ("autocast-fp16", "autocast-bf16"):
        return Recipe(parameter=4, gradient=4, state=4, compute=4, matmul=2, residual=4, cast=2)
    if precision in ("pure-bf16", "pure-fp16"):
        return Recipe(parameter=2, gradient=2, state=2, compute=2, matmul=2, residual=2)
    if parallel.framework in ("fsdp1", "fsdp2"):
        return Recipe(parameter=4, gradient=4, state=4, compute=2, matmul=2, residual=2)
    if parallel.framework == "deepspeed":
        return Recipe(parameter=2, gradient=2, state=4, master=4, compute=2, matmul=2, residual=2, eager_states=True)
    fp16 = precision == "fp16" and parallel.framework == "megatron"
    eight = precision == "fp8"
    return Recipe(
        parameter=1 if eight and run.fp8_weights else 2,
        gradient=2 if fp16 else 4,  # Megatron asks for fp32 gradients with bf16 alone
        state=4,
        master=4,
        compute=2,
        matmul=2,
        residual=2,
        persistent_gradients=True,
        # Transformer Engine keeps every weight in 8 bits and once more transposed, from one micro-batch to the next.
        weight_cache=0.0 if not eight else 1.0 if run.fp8_weights else 2.0,
    )
