"""Work of a training step, and how many tokens keep a GPU's arithmetic busy."""

from __future__ import annotations

import msgspec

from preflight.cost.parameters import (
    attention_width,
    decoder_depth,
    decoder_side,
    expert_share,
    feed_forward,
    head_kind,
    is_transformer,
    vision_tokens,
)
from preflight.vocabulary.hardware import Gpu
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import Recompute, RunSpec


class Flops(msgspec.Struct, frozen=True, kw_only=True):
    """FLOP of one sample.

    Attributes:
        forward: Forward pass. backward: Backward pass, twice the forward.
        recomputed: Forward work that is done again for the backward pass.
        attention: The part of ``forward`` that grows with the square of the length.
    """

    forward: float
    backward: float
    recomputed: float = 0.0
    attention: float = 0.0

    @property
    def model(self) -> float:
        """What the mathematics asks for: the basis of MFU."""
        return self.forward + self.backward

    @property
    def hardware(self) -> float:
        """What the device does: the basis of HFU."""
        return self.forward + self.backward + self.recomputed


def flops_per_sample(
    model: ModelSpec,
    sequence_length: int | None = None,
    image_size: int | None = None,
    *,
    target_length: int | None = None,
    causal: bool = True,
    recompute: Recompute = "none",
) -> Flops | None:
    """Return the FLOP of one sample of a transformer, or of a network whose operations were counted; else None.

    Forward per token and layer: 2 (H(q+2k) + qH + 3HF) + 4 s q, half of the last for causal attention counted
    exactly; the output matrix 2HV; backward twice the forward (Narayanan et al. 2021, Chowdhery et al. 2022).

    Args:
        model: The architecture.
        sequence_length: Tokens of a sample (the source, for encoder-decoder models that read no audio frames).
        image_size: Side of the image for vision transformers; the model's own when None.
        target_length: Tokens of the decoder; the source's when None.
        causal: Whether a decoder's attention counts only what it may see (False: the full square).
        recompute: What is computed again.
    """
    if not is_transformer(model):
        return _counted(model, image_size, recompute)
    if model.family == "vision_transformer":
        length = vision_tokens(model, image_size or model.image_size)
    else:
        length = float(model.source_positions or sequence_length) if sequence_length else None
    if not length:
        return None
    layers, halves = float(model.layers or 0), causal and model.family in ("transformer_decoder", "moe")
    queries, _ = attention_width(model)
    matrices = layers * length * 2 * _block_matrices(model)
    attention = layers * (2 if halves else 4) * length * length * queries
    rows = length
    if model.family == "encoder_decoder":
        rows = float(target_length or sequence_length or 0)
        behind = float(decoder_depth(model))
        matrices += behind * 2 * (rows * _block_matrices(decoder_side(model)) + _cross_matrices(model, rows, length))
        attention += behind * queries * ((2 if causal else 4) * rows * rows + 4 * rows * length)
    head = 0.0
    if head_kind(model) in ("lm", "mlm") and model.vocab:
        head = 2.0 * float(model.hidden or 0) * model.vocab * rows
    forward = matrices + attention + head
    again = {"none": 0.0, "full": matrices + attention, "selective": attention, "op": (matrices + attention) / 2}
    return Flops(forward=forward, backward=2 * forward, recomputed=again[recompute], attention=attention)


def _counted(model: ModelSpec, image_size: int | None, recompute: Recompute) -> Flops | None:
    """Return operations that were written down, or counted once and scaled with the area of the image; else None."""
    if model.network is not None and (image_size or model.image_size):
        from preflight.cost.networks.trace import trace_of

        found = trace_of(model, RunSpec(image_size=image_size), 2.0, 2.0)
        assert found is not None
        work, again = found.whole.flops, found.blocks.flops if recompute != "none" else 0.0
        attention = sum(4 * one.heads * one.dim * one.queries * one.keys * n for one, n in found.whole.attentions)
        return Flops(forward=work, backward=2 * work, recomputed=again, attention=attention)
    if not model.forward_flops:
        return None
    scale = (image_size / model.image_size) ** 2 if image_size and model.image_size else 1.0
    return Flops(forward=model.forward_flops * scale, backward=2 * model.forward_flops * scale)


def _block_matrices(model: ModelSpec) -> float:
    """Return the weights of one block that a token passes through."""
    hidden = float(model.hidden or 0)
    queries, keys = attention_width(model)
    matrices = 3 if model.gated else 2
    attention = hidden * (queries + 2 * keys) + queries * hidden
    dense = matrices * hidden * feed_forward(model)
    if not model.experts:
        return attention + dense
    width = float(model.expert_ffn or model.ffn or 0)
    routed = hidden * model.experts + matrices * hidden * width * (model.experts_per_token + model.shared_experts)
    share = expert_share(model)
    return attention + (1 - share) * dense + share * routed


def _cross_matrices(model: ModelSpec, target: float, source: float) -> float:
    """Return weights x tokens of cross attention: queries and output of the target, keys and values of the source."""
    hidden = float(model.hidden or 0)
    queries, keys = attention_width(model)
    return 2 * hidden * queries * target + 2 * hidden * keys * source


def ridge_point(gpu: Gpu, dtype: str = "bf16") -> float | None:
    """Return FLOP per byte at which a GPU turns from memory-bound to compute-bound, or None for an unknown dtype.

    The roofline's ridge: peak arithmetic over memory bandwidth (Williams, Waterman and Patterson 2009).
    """
    peak = gpu.peak_flops.get(dtype)
    return peak / gpu.bandwidth if peak and gpu.bandwidth else None


def minimal_rows(inputs: float, outputs: float, ridge: float, element_bytes: float) -> float | None:
    """Return the rows from which a matrix product is compute-bound, or None when no number of rows is enough.

    From 2 m k n / (w (mk + kn + mn)) >= R follows m >= R w k n / (2 k n - R w (k + n)).
    """
    denominator = 2.0 * inputs * outputs - ridge * element_bytes * (inputs + outputs)
    return ridge * element_bytes * inputs * outputs / denominator if denominator > 0 else None


def minimal_tokens(model: ModelSpec, gpu: Gpu, dtype: str = "bf16") -> float | None:
    """Return the tokens per forward pass from which the feed-forward products are compute-bound.

    None when the architecture or the GPU's peak is not known, or when the matrices are too narrow at any batch.
    """
    hidden, width, ridge = float(model.hidden or 0), feed_forward(model), ridge_point(gpu, dtype)
    if not hidden or not width or ridge is None:
        return None
    return minimal_rows(hidden, width, ridge, {"fp32": 4.0, "tf32": 4.0, "fp8": 1.0}.get(dtype, 2.0))
