"""Speech encoders over raw audio: wav2vec 2.0 and HuBERT-like feature extractors."""

from __future__ import annotations

import math
from typing import Any

from preflight.catalog.families.bert import block_of
from preflight.catalog.families.counted import Builder, Config, Counted, linear, split
from preflight.errors import InputError
from preflight.vocabulary.model import ModelSpec


def _numbers(config: Config, key: str, default: list[int]) -> list[int]:
    value = config.values.get(key)
    if value is None:
        return default
    if not isinstance(value, list | tuple) or not all(isinstance(part, int) and part > 0 for part in value):
        raise InputError(f"model configuration: {key} is not a list of whole numbers")
    return list(value)


def _of_sound(widths: list[int], strides: list[int], normed: int) -> dict[str, Any]:
    """Return the samples behind one token, and what the convolutions keep for it where they are trained.

    Each keeps what it is given, and what its activation is given; a normalisation between the two keeps its own input.
    """
    rows = [math.prod(strides[place + 1 :]) for place in range(len(widths))]
    made = [width * row for width, row in zip(widths, rows, strict=False)]
    samples = math.prod(strides)
    return {
        "samples_per_token": samples,
        "sound_elements": float(samples + sum(made) + sum(made[normed:])),
        "sound_normed_elements": 2.0 * sum(made[:normed]),
    }


def wav2vec2(config: Config) -> Counted:
    """Count wav2vec 2.0: seven convolutions, a projection, a weight-normed positional convolution, blocks."""
    hidden, ffn = config.count("hidden_size", 768), config.count("intermediate_size", 3072)
    layers, heads = config.whole("num_hidden_layers", 12), config.count("num_attention_heads", 12)
    widths = _numbers(config, "conv_dim", [512] * 7)
    kernels = _numbers(config, "conv_kernel", [10, 3, 3, 3, 3, 2, 2])
    strides = _numbers(config, "conv_stride", [5, 2, 2, 2, 2, 2, 2])
    bias = config.flag("conv_bias", False)
    # Group norm sits after the first convolution only; layer norm after each.
    normed = widths if config.word("feat_extract_norm", "group") == "layer" else widths[:1]
    features = sum(
        linear(inputs * kernel, outputs, bias)
        for inputs, outputs, kernel in zip([1, *widths[:-1]], widths, kernels, strict=False)
    ) + sum(2 * width for width in normed)
    projection = 2 * widths[-1] + linear(widths[-1], hidden)
    kernel = config.count("num_conv_pos_embeddings", 128)
    groups = config.count("num_conv_pos_embedding_groups", 16)
    # Weight norm keeps one gain for each tap of the kernel beside the direction.
    positional = hidden * split(hidden, groups, "hidden size") * kernel + kernel + hidden
    block = block_of(hidden, ffn)
    masked = config.ratio("mask_time_prob", 0.05) > 0 or config.ratio("mask_feature_prob", 0.0) > 0
    base = features + projection + positional + 2 * hidden + layers * block + (hidden if masked else 0)
    spec = ModelSpec(
        family="transformer_encoder",
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=split(hidden, heads, "hidden size"),
        ffn=ffn,
        activation=config.word("hidden_act", "gelu"),
        norm="layernorm",
        bias=True,
        vocab=config.count("vocab_size", 32),
        learned_positions=False,
        dropout=config.ratio("hidden_dropout", 0.1),
        sound_parameters=features,
        **_of_sound(widths, strides, len(normed)),
    )
    labels, pool = config.labels(), config.count("classifier_proj_size", 256)
    deltas = {
        "none": 0,
        "ctc": linear(hidden, config.count("vocab_size", 32)),
        "sequence-classification": linear(hidden, pool) + linear(pool, labels),
    }
    return Counted(spec=spec, base=base, heads=deltas, default_head="none", block=block)


BUILDERS: dict[str, Builder] = {"wav2vec2": wav2vec2}
