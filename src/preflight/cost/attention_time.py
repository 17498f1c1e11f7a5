"""Seconds of attention: flash kernels, the matrix of scores written out, and a ring of context-parallel ranks."""

from __future__ import annotations

import msgspec

from preflight.cost.kernels import flash_seconds, matmul_seconds, traffic_seconds
from preflight.cost.machine import Machine
from preflight.cost.numeric import smaller, where
from preflight.cost.parameters import attention_width
from preflight.cost.recipe import Recipe
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import RunSpec

# The backward pass of flash attention takes five products where the forward pass takes two.
FLASH_BACKWARD = 2.5
# Queries of a tile of a flash kernel: on the diagonal of a causal matrix half a tile of keys is masked after the fact.
_TILE = 128.0
# What a later step of a ring does with its part of the result, in elements read and written: forward the sum so far is
# read, scaled by the exponent of two log-sums and added to (read twice, written once, in fp32: 5 elements of two bytes);
# backward the gradients of queries, keys and values are added to those of the steps before.
_CORRECTED, _ADDED = 5.0, 3.0


class AttentionTime(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of attention of one block and micro-batch, without its projections.

    Attributes:
        forward: Kernels. backward: Kernels.
        piece: What one step of a ring computes forward, beside which keys and values travel; all of it without a ring.
        kernels: Kernels beyond one.
    """

    forward: float
    backward: float
    piece: float
    kernels: float = 0.0


def attention_time(
    model: ModelSpec,
    run: RunSpec,
    recipe: Recipe,
    machine: Machine,
    tokens: float,
    keys: float,
    tensor: float,
    around: float = 1.0,
) -> AttentionTime:
    """Return the seconds of attention.

    Args:
        model: The architecture.
        run: Which kernels.
        recipe: Widths in bytes.
        machine: The rates.
        tokens: Queries of a micro-batch on this rank.
        keys: The length of the sequence.
        tensor: Tensor-parallel degree.
        around: Ranks of a context-parallel ring.
    """
    if run.attention in ("eager", "math"):
        return _written_out(model, run, recipe, machine, tokens, keys, tensor)
    heads = float(model.heads or 1) / tensor
    queries, kv = attention_width(model)
    causal = model.family in ("transformer_decoder", "moe")
    seen = mean_keys(model, keys, causal)
    flop = 4.0 * tokens * seen * queries / tensor
    # Every rank has a chunk of both ends of the sequence, so that all steps of a ring have the same work: half of the
    # pairs of its own chunks, then all of its queries with half of the keys or half of them with all.
    wasted = _TILE / 2 if causal else 0.0
    piece = flash_seconds(machine, flop / around, tokens * heads, seen / around, wasted)
    element = recipe.matmul / tensor
    corrected = traffic_seconds(machine, _CORRECTED * tokens * queries * element, 1.0)
    added = traffic_seconds(machine, _ADDED * tokens * (queries + 2 * kv) * element, 1.0)
    later = around - 1.0
    return AttentionTime(
        forward=around * piece + where(around > 1, later * corrected, 0.0),
        backward=around * piece * FLASH_BACKWARD + where(around > 1, later * added, 0.0),
        piece=piece,
    )


def _written_out(
    model: ModelSpec, run: RunSpec, recipe: Recipe, machine: Machine, tokens: float, keys: float, tensor: float
) -> AttentionTime:
    """Return both products in full, and the passes of the matrix of heads x queries x keys through memory.

    Fused: scores, softmax with scale and mask, product with the values. Otherwise the scores are written, scaled, masked,
    normalised and read again, each on its own; autocast takes mask and softmax in fp32 and casts what comes out: 28 bytes
    for a score forward and 36 backward where a plain type of two bytes takes 16 and 24. Images have no mask, which saves a
    plain type a quarter; from fp16 the softmax then casts what it reads itself: 20 and 28 bytes. Queries, keys and values
    are copied head by head before the products, and the result behind them.
    """
    heads = float(model.heads or 1) / tensor
    queries, kv = attention_width(model)
    dim = queries / float(model.heads or 1)
    seen = window_of(model, keys)
    w, dropout = recipe.matmul, 1.0 if model.dropout else 0.0
    product = matmul_seconds(machine, tokens * heads, seen, dim, w)
    fused = run.stack in ("megatron", "compile")
    scores = tokens * heads * seen
    masked = model.family != "vision_transformer"
    if recipe.cast and not fused:
        saved = 8.0 if not masked and run.precision == "autocast-fp16" else 0.0
        ahead, behind = 28.0 - saved + 9.0 * dropout, 36.0 - saved + 9.0 * dropout
    else:
        ahead = w * ((4.0 if fused else 8.0 if masked else 6.0) + 2.5 * dropout)
        behind = 1.5 * ahead
    kernels = (3.0 if fused else 6.0 if masked else 5.0) + dropout
    copies = 0.0 if fused else w * tokens * (4 * queries + 4 * kv) / tensor
    forward = 2 * product + traffic_seconds(machine, ahead * scores + copies, kernels)
    backward = 4 * product + traffic_seconds(machine, behind * scores + 2 * copies, 1.5 * kernels)
    return AttentionTime(forward=forward, backward=backward, piece=forward, kernels=kernels)


def window_of(model: ModelSpec, keys: float) -> float:
    """Return the keys that a query of a windowed layer sees."""
    return smaller(keys, model.sliding_window) if model.sliding_window else keys


def mean_keys(model: ModelSpec, keys: float, causal: bool) -> float:
    """Return the keys that a query sees on average: half of them where attention is causal, more within a window."""
    seen = window_of(model, keys)
    return seen * (1.0 - seen / (2.0 * keys)) if causal else seen
