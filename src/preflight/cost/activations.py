"""Bytes that autograd keeps between forward and backward, per token of a transformer block.

The lists follow what each operation saves for its backward pass, as ``torch.autograd.graph.saved_tensors_hooks``
shows them for the model classes of transformers on CPU (tests/cost/test_activations_torch.py), and the item list of
Korthikanti et al. 2022 (arXiv 2205.05198) for Megatron's fused layers.
Letters: H hidden, q = heads x head_dim, k = kv_heads x head_dim, F feed-forward, n heads, s keys per query.
"""

from __future__ import annotations

import msgspec

from preflight.cost.activation_layout import Layout
from preflight.cost.latent import is_latent, latent_widths
from preflight.cost.numeric import where
from preflight.cost.parameters import attention_width, feed_forward
from preflight.vocabulary.model import ModelSpec


class BlockBytes(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes per token of one block.

    Attributes:
        saved: Kept until backward, without the attention matrix.
        square: Kept per key (the attention matrix); times the number of keys.
        entry: The input of the block, which checkpointing keeps.
        working: What the backward pass of the block allocates for a moment.
        working_square: The same per key.
        unpacked: Bytes of the largest matrix of the block as it is unpacked from 4 bits, whatever the batch.
    """

    saved: float
    square: float
    entry: float
    working: float
    working_square: float
    unpacked: float = 0.0


def norm_bytes(model: ModelSpec, layout: Layout, trained: bool = True) -> float:
    """Return what one normalisation keeps per token: its input, and for an unfused RMS norm two more tensors.

    LayerNorm keeps its input and two fp32 statistics. An RMS norm written out keeps an fp32 copy of the input,
    1/rms, and the normalised tensor that the scale is multiplied with.
    """
    hidden = float(model.hidden or 0)
    if model.norm not in ("rmsnorm", "rms_norm"):
        return hidden * layout.residual + 8.0
    if layout.style != "eager":
        return hidden * layout.residual + 4.0
    normalised = hidden * layout.residual if trained else 0.0
    # T5 multiplies the low-precision input itself with 1/rms, so that it is kept beside its fp32 copy.
    again = hidden * layout.residual if model.family == "encoder_decoder" and layout.residual < 4 else 0.0
    return 4.0 * hidden + normalised + again + 4.0


def _attention(model: ModelSpec, layout: Layout, cross: bool = False) -> tuple[float, float]:
    """Return bytes per token and per token and key of an attention layer without its normalisation."""
    hidden, heads, w = float(model.hidden or 0), float(model.heads or 0), layout.matmul
    queries, keys = attention_width(model)
    if layout.expanded:
        keys = queries
    values, compressed = keys, 0.0
    if is_latent(model):
        keys, values, compressed = latent_widths(model)  # keys are made for every head
    # What is compressed is normalised: both sides of the norm stay.
    saved = w * (queries + keys + values) / layout.tensor + 2 * w * compressed / layout.sequence
    inputs = 0.0
    if layout.recast:
        shared = model.fused_qkv or cross or layout.style == "compile"
        copies = (
            (1 if shared else 3)
            if layout.trained or layout.quantized
            else len(layout.adapters.intersection({"q", "k", "v"}))
        )
        inputs = copies * w * hidden
    elif layout.keeps("q", "k", "v"):
        inputs = layout.kept_input * hidden
    saved += inputs / layout.gathered
    output = w * (values if is_latent(model) else queries)
    square = 0.0
    if layout.quadratic:
        capped = w if model.attention_softcap else 0.0  # tanh keeps its output
        square = (_softmax_bytes(layout) + capped) * heads / layout.tensor
        saved += (output if layout.keeps("o") else 0.0) / layout.tensor
    else:
        saved += (output + 4.0 * heads) / layout.tensor
        if layout.input is not None:
            saved += layout.input * queries / layout.tensor  # its 8-bit form, for the projection behind
    if layout.style == "eager" and not layout.quadratic and _whole_projection(model, layout):
        # Queries and keys are rotated into new tensors; the values are a view that keeps the fused output whole.
        saved += w * (queries + keys) / layout.tensor
    if layout.style == "megatron":
        # The ring's buffers hold keys and values beside the output of the fused projection that they were part of.
        saved += where(layout.ring, 2 * w * keys / layout.tensor, 0.0)
    if layout.dropout:
        saved += layout.mask * hidden / layout.sequence
    return saved, square


def _whole_projection(model: ModelSpec, layout: Layout) -> bool:
    """Return whether the values that attention keeps are a view of one fused product of queries, keys and values."""
    rotary = model.family in ("transformer_decoder", "moe") and not model.learned_positions
    copied = layout.expanded and (model.kv_heads or model.heads) != model.heads  # repeating heads copies them
    return model.fused_qkv and rotary and not copied


def _softmax_bytes(layout: Layout) -> float:
    """Return bytes per head, query and key: the softmax, its low-precision copy, and dropout's mask and output."""
    w = layout.matmul
    bytes_ = w if w >= 4 or not layout.upcast_softmax else 4.0 + w
    if layout.dropout:
        bytes_ += layout.mask + w - (w if bytes_ > w else 0.0)
    return bytes_


# Tensors of the feed-forward width that an activation function keeps, with the input of the next matrix:
WRITTEN_OUT = ("gelu_new", "gelu_fast")
"""Activations that transformers computes operator by operator."""
# gelu and silu keep their input; relu its output, which the next matrix shares; written-out ones every product.
_KEPT = {"relu": 1.0, "gelu": 2.0, "silu": 2.0, "swish": 2.0, "gelu_new": 5.0, "gelu_fast": 5.0, "quick_gelu": 3.0}
_GATED_KEPT = {"relu": 3.0}


def _feed_forward(model: ModelSpec, layout: Layout, width: float) -> float:
    """Return bytes per token of a feed-forward layer: its input, what the activation keeps, the second input."""
    hidden, w = float(model.hidden or 0), layout.matmul
    activation = (model.activation or "gelu").lower()
    inputs = 0.0
    if layout.recast:
        copies = 2 if model.gated and layout.style != "compile" else 1
        inputs = copies * w * hidden if layout.keeps("mlp") else 0.0
    elif layout.keeps("mlp"):
        inputs = layout.kept_input * hidden
    if layout.style != "eager":
        # Fused kernels recompute the activation; the inputs of both matrices are written and kept all the same.
        kept = (2.0 if model.gated else 1.0) + layout.kept_input / w
    elif model.gated:
        kept = _GATED_KEPT.get(activation, 3.0) + 1.0
        kept += _KEPT.get(activation, 2.0) - 2.0 if activation in WRITTEN_OUT else 0.0
    else:
        kept = _KEPT.get(activation, 2.0)
    if not layout.keeps("mlp") and layout.style == "eager":
        kept -= 1.0  # the frozen second matrix does not keep its input
    saved = inputs / layout.gathered + kept * w * width / layout.tensor
    if layout.dropout:
        saved += layout.mask * hidden / layout.sequence
    return saved


def _experts(model: ModelSpec, layout: Layout) -> float:
    """Return bytes per token of a MoE layer: router, gathered inputs, every chosen and shared expert, outputs.

    Per routed token an expert keeps its input, what its activation keeps and the input of its second matrix.
    Where the router's weight multiplies the expert's output, that output is kept for the weight's gradient;
    Megatron multiplies inside the expert, before the second matrix: without a fused gate one more tensor of its width.
    """
    hidden, w = float(model.hidden or 0), layout.matmul
    width = float(model.expert_ffn or model.ffn or 0)
    own = msgspec.structs.replace(layout, tensor=layout.expert_tensor, sequence=1.0, dropout=False)
    inner = _feed_forward(model, own, width)
    if layout.style == "megatron":
        inner += 0.0 if model.gated else w * width / layout.expert_tensor
    else:
        inner += w * hidden
    router = (2 * 4.0 * model.experts + w * hidden) / layout.sequence
    return router + routed(model, layout) * inner + model.shared_experts * _feed_forward(model, layout, width)


def routed(model: ModelSpec, layout: Layout) -> float:
    """Return the rows that pass this rank's experts for every token of its micro-batch."""
    return float(model.experts_per_token or 1) * layout.expert_rows


def adapter_bytes(model: ModelSpec, layout: Layout) -> float:
    """Return bytes per token that adapters add to one block.

    Without dropout an adapter shares its input with its neighbours (counted with the layers), except that the second
    feed-forward matrix now keeps its own; with dropout each adapted matrix keeps a copy of its input, and a mask in
    place of the input itself.
    """
    hidden, width, w = float(model.hidden or 0), feed_forward(model), layout.matmul
    queries, keys = attention_width(model)
    parts = layout.adapters.intersection({"q", "k", "v"})
    padded = 0.0
    if model.fused_qkv and 0 < len(parts) < 3:
        # Adapters of some parts of a fused product are copied into zeros of its width: the copy keeps its source.
        padded = w * sum(queries if part == "q" else keys for part in parts)
    if not layout.adapters or not layout.adapter_dropout:
        return padded
    group = 1 if model.fused_qkv else len(layout.adapters.intersection({"q", "k", "v"}))
    inputs = float(group if layout.adapters.intersection({"q", "k", "v"}) else 0) * hidden
    inputs += queries if "o" in layout.adapters else 0.0
    inputs += (2 if model.gated else 1) * hidden + width if "mlp" in layout.adapters else 0.0
    shared = (hidden if layout.adapters.intersection({"q", "k", "v"}) else 0.0) + (
        hidden + width if "mlp" in layout.adapters else 0.0
    )
    return padded + (w + layout.mask) * inputs - (0.0 if layout.quantized else w * shared)


def lingering_bytes(model: ModelSpec, layout: Layout) -> float:
    """Return bytes per token of one block that outlive the backward pass, until the graph itself is gone.

    bitsandbytes' 4-bit product stores its input as an attribute of its context, not as a saved tensor: backward does
    not free it. A loop that names its outputs keeps that graph until the next forward pass is over.
    """
    if not layout.quantized:
        return 0.0
    hidden, width = float(model.hidden or 0), feed_forward(model)
    norms = 1.0 if (model.norms_per_block or 2) == 1 else 2.0
    return layout.matmul * (norms * hidden + attention_width(model)[0] + width) / layout.tensor


def block_bytes(model: ModelSpec, layout: Layout, *, dense: bool = False, cross: bool = False) -> BlockBytes:
    """Return what one block keeps per token.

    Args:
        model: The architecture.
        layout: What decides which tensors are saved.
        dense: Whether to take the dense form of a MoE model's block.
        cross: Whether the block is a decoder's with cross attention (its keys and values are counted apart).
    """
    hidden, w = float(model.hidden or 0), layout.matmul
    width = feed_forward(model)
    attention, square = _attention(model, layout)
    moe = bool(model.experts) and not dense
    mlp = _experts(model, layout) if moe else _feed_forward(model, layout, width)
    norms = float(model.norms_per_block or 2)
    if model.parallel_blocks and model.norm not in ("rmsnorm", "rms_norm"):
        norms = 1.0  # both keep the same input
    saved = attention + mlp + adapter_bytes(model, layout)
    if cross:
        extra, extra_square = _attention(model, layout, cross=True)
        saved, square, norms = saved + extra, square + extra_square, norms + 1
    saved += norms * norm_bytes(model, layout, layout.trained) / layout.sequence
    wide = (3.0 if model.gated else 2.0) * (width if not moe else float(model.expert_ffn or width))
    working = w * wide * routed(model, layout) / layout.expert_tensor if moe else w * wide / layout.tensor
    return BlockBytes(
        saved=saved,
        square=square,
        entry=layout.residual * hidden / layout.sequence,
        working=working + 2 * layout.residual * hidden / layout.sequence,
        working_square=2 * max(w, 4.0) * float(model.heads or 0) / layout.tensor if layout.quadratic else 0.0,
        unpacked=layout.unpacked * hidden * width / layout.tensor,
    )


def selective_bytes(model: ModelSpec, layout: Layout) -> float:
    """Return what per-operator checkpointing keeps per token: the block's input, attention, every second product.

    Of the products in the order in which they run the first, third ... are kept (torchtitan's ``_get_custom_policy``).
    """
    hidden, width = float(model.hidden or 0), feed_forward(model)
    queries, keys = attention_width(model)
    ahead = [queries + 2 * keys] if model.fused_qkv else [queries, keys, keys]
    split = [*(part / layout.tensor for part in ahead)]
    products = [*split, hidden / layout.sequence, *([width / layout.tensor] * (2 if model.gated else 1))]
    kept = sum([*products, hidden / layout.sequence][::2])
    attention = layout.matmul * queries / layout.tensor + 4.0 * float(model.heads or 0) / layout.tensor
    return layout.residual * hidden / layout.sequence + layout.matmul * kept + attention
