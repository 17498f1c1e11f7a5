"""Seconds of one transformer block on one rank: products, attention, memory traffic, and the launches behind them."""

from __future__ import annotations

import msgspec

from preflight.cost.activations import WRITTEN_OUT
from preflight.cost.attention_time import attention_time
from preflight.cost.kernels import matmul_seconds, traffic_seconds
from preflight.cost.machine import Machine
from preflight.cost.numeric import larger, where
from preflight.cost.parameters import attention_width, expert_share, feed_forward
from preflight.cost.recipe import Recipe
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import RunSpec

# Operators of the backward pass for each one of the forward pass: most have two gradients, but no Python around them.
_BEHIND = 1.3
# Operators of the host for a forward pass: a block of Megatron-LM; routing, permuting and counting of experts, and what each
# expert of a rank adds (Megatron-LM's tests with 8 experts take 7 to 9 ms more for a block than without).
_OLD_MEGATRON, _MEGATRON = 100.0, 200.0
_ROUTING, _EXPERT = 200.0, 20.0
# Operators of one step of a context-parallel ring: sending, receiving, attention, correction of what was there.
_RING = 40.0


class LayerTime(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of one block and micro-batch; of the mean block where some are dense and others hold experts.

    Attributes:
        forward: Kernels of the forward pass. backward: Kernels of the backward pass, without recomputation.
        attention: The part of ``forward`` that selective recomputation takes again. piece: The part of it beside which keys
            and values travel around a ring.
        products: The part of ``forward`` that multiplies matrices.
        operators: What the host dispatches for the forward pass. operators_behind: The same for the backward pass.
    """

    forward: float
    backward: float
    attention: float
    piece: float
    products: float
    operators: float
    operators_behind: float


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """Elements that memory-bound kernels read and write per token in a forward pass, and how many kernels that is.

    Attributes:
        hidden: In units of the width of the stream. inner: Of the feed-forward width. attention: Of queries and keys.
        kernels: Memory-bound kernels. products: Matrix products and attention.
    """

    hidden: float
    inner: float
    attention: float
    kernels: float
    products: float


def traffic_of(model: ModelSpec, run: RunSpec, recipe: Recipe) -> Traffic:
    """Return the memory traffic of a block by the software that runs it.

    Fused (Megatron, Transformer Engine): a norm reads and writes (2), bias, dropout and residual in one kernel (3), twice
    each; the activation reads its inputs and writes its output; rotary reads and writes queries and keys.
    Compiled: norms are fused with the residual before them. Eager: every operator on its own; an RMS norm written out is
    six kernels, partly in fp32. Autocast casts the inputs of products (an element of four bytes read, one of two written;
    queries, keys and values each their own unless one matrix yields them) and keeps the stream in fp32: sum and norm take 36
    bytes an element in the place of 20. What stays in two bytes between the matrices of a feed-forward layer is not cast.
    GELU by its tangent, written out as transformers does (``NewGELUActivation``), is a power, four products, two sums and the
    tangent: 18 elements in the place of two; under autocast the power is taken in fp32 and what follows with it, 58 bytes.
    """
    gated, rotary = 1.0 if model.gated else 0.0, 0.0 if model.learned_positions else 1.0
    dropout = 1.0 if model.dropout else 0.0
    if run.stack == "megatron":
        return Traffic(
            hidden=10.0 + dropout, inner=2.0 + gated, attention=2.0 * rotary, kernels=5.0 + 2 * rotary, products=5
        )
    if run.stack == "compile":
        return Traffic(hidden=8.0 + dropout, inner=2.0 + gated, attention=2.0 * rotary, kernels=6.0, products=5)
    rms = 1.0 if model.norm in ("rmsnorm", "rms_norm") else 0.0
    cast = 1.0 if recipe.cast else 0.0
    written = 1.0 if (model.activation or "") in WRITTEN_OUT else 0.0
    inputs = (1.0 if model.fused_qkv else 3.0) + (2.0 if model.gated else 1.0)
    return Traffic(
        hidden=10.0 + 20.0 * rms + 5 * dropout + (8 + 3 * inputs) * cast,
        inner=2.0 + written * (16.0 + 11.0 * cast) + 3 * gated,
        attention=10.0 * rotary,
        kernels=6.0 + 12 * rms + 2 * gated + 12 * rotary + 2 * dropout + 8 * cast + 7 * written,
        products=5.0 + 2 * gated,
    )


def layer_time(
    model: ModelSpec,
    run: RunSpec,
    recipe: Recipe,
    machine: Machine,
    tokens: float,
    keys: float,
    tensor: float,
    sequence: float,
    experts_over: float = 1.0,
    around: float = 1.0,
    framework: str | None = None,
) -> LayerTime:
    """Return the seconds of one block, the mean one where blocks differ.

    Args:
        model: The architecture.
        run: Attention, software, precision.
        recipe: Widths in bytes.
        machine: The rates.
        tokens: Tokens of a micro-batch on this rank (before tensor parallelism).
        keys: Keys that a query sees at most: the length of the sequence.
        tensor: Tensor-parallel degree.
        sequence: Degree over which norms and residuals are divided.
        experts_over: Ranks over which experts lie.
        around: Ranks of a context-parallel ring.
        framework: Who spreads the run: Megatron-DeepSpeed's blocks are those of the Megatron of its day.
    """
    hidden, width = float(model.hidden or 0), feed_forward(model)
    queries, kv = attention_width(model)
    gate = 2.0 if model.gated else 1.0
    local = larger(model.experts / experts_over, 1.0) if model.experts else 0.0
    forward = backward = 0.0
    w = recipe.matmul
    trained = run.finetune == "full"
    for _, count, rows, columns, inner_size in products_of(model, tokens, tensor, experts_over):
        unpacked = _unpacking(run, machine, columns * inner_size)
        forward = forward + count * (matmul_seconds(machine, rows, columns, inner_size, w) + unpacked)
        backward = backward + count * (matmul_seconds(machine, rows, inner_size, columns, w) + unpacked)
        if trained:
            backward = backward + count * matmul_seconds(machine, inner_size, columns, rows, w)
        if run.precision == "fp8":
            ahead, behind = _eight_bits(run, machine, rows, columns, inner_size)
            forward, backward = forward + count * ahead, backward + count * behind
        if recipe.cast:
            # Autocast turns every matrix into the low type once a micro-batch, and its gradient back.
            turned = count * traffic_seconds(machine, (4.0 + 2.0) * columns * inner_size, 1.0)
            forward, backward = forward + turned, backward + (turned if trained else 0.0)
    attention = attention_time(model, run, recipe, machine, tokens, keys, tensor, around)
    moved = traffic_of(model, run, recipe)
    sparse = expert_share(model)
    passed = float(model.experts_per_token or 1) + model.shared_experts  # experts that a token passes through
    wide = (1 - sparse) * width + sparse * passed * float(model.expert_ffn or width)
    size = (
        w
        * tokens
        * (
            moved.hidden * hidden / sequence
            + moved.inner * gate * wide / tensor
            + moved.attention * (queries + kv) / tensor
        )
    )
    rest = traffic_seconds(machine, size, moved.kernels)
    operators = operators_of(run, moved, framework) + attention.kernels + where(around > 1, _RING * around, 0.0)
    if model.experts:
        operators = operators + sparse * (_ROUTING + _EXPERT * local)
    return LayerTime(
        forward=forward + attention.forward + rest,
        backward=backward + attention.backward + 2 * rest,
        attention=attention.forward,
        piece=attention.piece,
        products=forward,
        operators=operators,
        operators_behind=_BEHIND * operators,
    )


def products_of(
    model: ModelSpec, tokens: float, tensor: float, experts_over: float = 1.0
) -> list[tuple[str, float, float, float, float]]:
    """Return the matrix products of a block's forward pass: name, how often, rows, columns, and the length of the sums.

    Where some blocks are dense, a product comes as often as in the mean block.

    Args:
        model: The architecture.
        tokens: Tokens of a micro-batch on this rank (before tensor parallelism).
        tensor: Tensor-parallel degree.
        experts_over: Ranks over which experts lie.
    """
    hidden, width = float(model.hidden or 0), feed_forward(model)
    queries, kv = attention_width(model)
    gate = 2.0 if model.gated else 1.0
    products = [
        ("queries, keys and values", 1.0, tokens, (queries + 2 * kv) / tensor, hidden),
        ("output of attention", 1.0, tokens, hidden, queries / tensor),
    ]
    sparse = expert_share(model)
    if sparse < 1:
        products += [
            ("feed-forward, up", 1.0 - sparse, tokens, gate * width / tensor, hidden),
            ("feed-forward, down", 1.0 - sparse, tokens, hidden, width / tensor),
        ]
    if model.experts:
        inner, chosen = float(model.expert_ffn or width), float(model.experts_per_token or 1)
        local = larger(model.experts / experts_over, 1.0)
        # Every rank sends its tokens away and gets as many from the others: the experts on it share those.
        rows, shared = tokens * chosen / local, inner * model.shared_experts
        if shared:
            products += [
                ("shared experts, up", sparse, tokens, gate * shared / tensor, hidden),
                ("shared experts, down", sparse, tokens, hidden, shared / tensor),
            ]
        products += [
            ("experts, up", sparse * local, rows, gate * inner / tensor, hidden),
            ("experts, down", sparse * local, rows, hidden, inner / tensor),
        ]
    return products


def _eight_bits(run: RunSpec, machine: Machine, rows: float, columns: float, inner: float) -> tuple[float, float]:
    """Return the seconds of turning what a product multiplies into 8 bits, forward and backward.

    Two bytes of an element are read and two of 8 bits written, one of them transposed for the product behind. Transformer
    Engine keeps the weights' from one micro-batch to the next; torchao's tensors are scaled and cast for every pass, for
    which their largest value is looked for first (two more bytes read).
    """
    kept = run.stack == "megatron"
    each = 4.0 if kept else 6.0
    weights = 0.0 if kept else columns * inner
    return (
        traffic_seconds(machine, each * (rows * inner + weights), 1.0),
        traffic_seconds(machine, each * rows * columns, 1.0),
    )


def _unpacking(run: RunSpec, machine: Machine, weights: float) -> float:
    """Return the seconds of writing out a 4-bit matrix before it is multiplied with: half a byte read, two written."""
    return traffic_seconds(machine, 2.5 * weights, 1.0) if run.finetune == "qlora" else 0.0


def operators_of(run: RunSpec, moved: Traffic, framework: str | None) -> float:
    """Return what the host dispatches for the forward pass of a block.

    Written-out PyTorch has about one view or reshape for each kernel; a compiled block calls kernels only. Megatron's
    modules do far more on the host: blocks too small to fill an A100 take 2.7 to 3.5 ms for forward, recomputation and
    backward with Megatron-DeepSpeed (vTrain's figures: 100 operators at 9 us), and 5.5 ms for forward and backward with the
    modules of today and Transformer Engine (Megatron-LM's own tests: 200 to 260 operators).
    """
    if run.stack == "megatron":
        return _OLD_MEGATRON if framework == "deepspeed" else _MEGATRON
    if run.stack == "compile":
        return moved.kernels + moved.products
    return 2.0 * (moved.kernels + moved.products)
