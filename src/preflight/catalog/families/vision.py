"""Vision transformers: ViT, DeiT, BEiT, DINOv2 and v3, masked autoencoders, the towers of CLIP, SigLIP's image tower."""

from __future__ import annotations

from typing import Any

import msgspec

from preflight.catalog.families.bert import block_of
from preflight.catalog.families.counted import Builder, Config, Counted, linear
from preflight.errors import InputError
from preflight.vocabulary.model import ModelSpec


def patches(config: Config, image: int, patch: int) -> tuple[int, int, int, int]:
    """Return image side, patch side, patches of an image, and pixels of a patch times channels."""
    height, width = config.side("image_size", image)
    rows, columns = config.side("patch_size", patch)
    if rows > height or columns > width:
        raise InputError(f"model configuration: patch_size {rows} is larger than image_size {height}")
    pixels = rows * columns * config.count("num_channels", 3)
    return height, rows, (height // rows) * (width // columns), pixels


def _spec(config: Config, tokens: int, image: int, patch: int, **more: Any) -> ModelSpec:
    hidden, heads = config.count("hidden_size", 768), config.count("num_attention_heads", 12)
    fields: dict[str, Any] = {
        "family": "vision_transformer",
        "layers": config.whole("num_hidden_layers", 12),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": heads,
        "head_dim": hidden // heads,
        "ffn": config.count("intermediate_size", 3072),
        "activation": config.word("hidden_act", "gelu"),
        "norm": "layernorm",
        "bias": config.flag("qkv_bias", True),
        "learned_positions": True,
        "image_size": image,
        "patch_size": patch,
        "tokens_per_image": tokens,
        "channels": config.count("num_channels", 3),
        "dropout": config.ratio("hidden_dropout_prob", 0.0),
    }
    return ModelSpec(**(fields | more))


def vit_like(config: Config, special_tokens: int, heads: int) -> Counted:
    """Count ViT (one special token) and DeiT (two, and two classifiers in the distilled class)."""
    image, patch, count, pixels = patches(config, 224, 16)
    spec = _spec(config, count + special_tokens, image, patch)
    assert spec.hidden
    assert spec.ffn
    assert spec.layers is not None
    hidden = spec.hidden
    block = block_of(hidden, spec.ffn) - (0 if spec.bias else 3 * hidden)
    pooler = linear(hidden, config.count("pooler_output_size", hidden))
    base = linear(pixels, hidden) + (special_tokens + count + special_tokens) * hidden
    base += spec.layers * block + 2 * hidden + pooler
    labels = config.labels()
    deltas = {"none": 0, "image-classification": linear(hidden, labels) - pooler}
    if heads == 2:
        deltas["image-classification-with-teacher"] = 2 * linear(hidden, labels) - pooler
    return Counted(spec=spec, base=base, heads=deltas, default_head="none", block=block)


def vit(config: Config) -> Counted:
    """Count ViT."""
    return vit_like(config, 1, 1)


def deit(config: Config) -> Counted:
    """Count DeiT."""
    return vit_like(config, 2, 2)


def beit(config: Config) -> Counted:
    """Count BEiT: no bias on keys, two scales a block, relative positions in each block or shared."""
    image, patch, count, pixels = patches(config, 224, 16)
    absolute = config.flag("use_absolute_position_embeddings", False)
    spec = _spec(config, count + 1, image, patch, bias=True, learned_positions=absolute)
    assert spec.hidden
    assert spec.ffn
    assert spec.heads
    assert spec.layers is not None
    hidden, side = spec.hidden, image // patch
    # (2 side - 1)^2 distances between patches, and 3 for the class token: to it, from it, to itself.
    relative = ((2 * side - 1) ** 2 + 3) * spec.heads
    block = block_of(hidden, spec.ffn) - hidden
    block += 2 * hidden if config.ratio("layer_scale_init_value", 0.1) > 0 else 0
    block += relative if config.flag("use_relative_position_bias", False) else 0
    base = linear(pixels, hidden) + hidden + spec.layers * block
    base += (count + 1) * hidden if absolute else 0
    base += hidden if config.flag("use_mask_token", False) else 0
    base += relative if config.flag("use_shared_relative_position_bias", False) else 0
    base += 2 * hidden  # after the blocks, or in the pooler that averages the patches
    heads = {"none": 0, "image-classification": linear(hidden, config.labels())}
    return Counted(spec=spec, base=base, heads=heads, default_head="none", block=block)


def dinov2(config: Config) -> Counted:
    """Count DINOv2: two scales a block, a mask token, a gated feed-forward layer in the giant."""
    image, patch, count, pixels = patches(config, 224, 14)
    hidden = config.count("hidden_size", 768)
    ratio, gated = config.count("mlp_ratio", 4), config.flag("use_swiglu_ffn", False)
    # The gated layer takes two thirds of the width, rounded up to a multiple of 8, twice.
    ffn = (int(hidden * ratio * 2 / 3) + 7) // 8 * 8 if gated else hidden * ratio
    spec = _spec(config, count + 1, image, patch, ffn=ffn, gated=gated)
    assert spec.layers is not None
    feed_forward = linear(hidden, 2 * ffn if gated else ffn) + linear(ffn, hidden)
    block = 4 * linear(hidden, hidden) - (0 if spec.bias else 3 * hidden) + feed_forward + 4 * hidden + 2 * hidden
    mask = hidden if config.flag("use_mask_token", True) else 0
    base = linear(pixels, hidden) + hidden + mask + (count + 1) * hidden + spec.layers * block + 2 * hidden
    heads = {"none": 0, "image-classification": linear(2 * hidden, config.labels())}
    return Counted(spec=spec, base=base, heads=heads, default_head="none", block=block)


def dinov3(config: Config) -> Counted:
    """Count DINOv3: rotary positions, registers, a bias for each matrix on its own."""
    image, patch, count, pixels = patches(config, 224, 16)
    hidden, ffn = config.count("hidden_size", 384), config.count("intermediate_size", 1536)
    gated, bias = config.flag("use_gated_mlp", False), config.flag("mlp_bias", True)
    registers = config.whole("num_register_tokens", 0)
    spec = _spec(
        config,
        count + 1 + registers,
        image,
        patch,
        hidden=hidden,
        heads=config.count("num_attention_heads", 6),
        kv_heads=config.count("num_attention_heads", 6),
        head_dim=hidden // config.count("num_attention_heads", 6),
        ffn=ffn,
        gated=gated,
        bias=config.flag("query_bias", True),
        learned_positions=False,
        dropout=0.0,
    )
    assert spec.layers is not None
    keys = (("query_bias", True), ("key_bias", False), ("value_bias", True), ("proj_bias", True))
    block = sum(linear(hidden, hidden, config.flag(key, default)) for key, default in keys)
    block += (2 if gated else 1) * linear(hidden, ffn, bias) + linear(ffn, hidden, bias) + 6 * hidden
    base = linear(pixels, hidden) + (2 + registers) * hidden + spec.layers * block + 2 * hidden
    heads = {"none": 0, "image-classification": linear(2 * hidden, config.labels())}
    return Counted(spec=spec, base=base, heads=heads, default_head="none", block=block)


def masked_autoencoder(config: Config) -> Counted:
    """Count ViT-MAE: a ViT without pooler, and for pre-training a narrower decoder that paints the masked patches."""
    image, patch, count, pixels = patches(config, 224, 16)
    spec = _spec(config, count + 1, image, patch)
    reason = "the encoder of a masked autoencoder sees a part of the patches, and its decoder all of them"
    assert spec.hidden
    assert spec.ffn
    assert spec.layers is not None
    unbiased = 0 if spec.bias else 3
    block = block_of(spec.hidden, spec.ffn) - unbiased * spec.hidden
    base = linear(pixels, spec.hidden) + (count + 2) * spec.hidden + spec.layers * block + 2 * spec.hidden
    inner, ffn = config.count("decoder_hidden_size", 512), config.count("decoder_intermediate_size", 2048)
    painter = config.whole("decoder_num_hidden_layers", 8) * (block_of(inner, ffn) - unbiased * inner)
    painter += linear(spec.hidden, inner) + (count + 2) * inner + 2 * inner + linear(inner, pixels)
    return Counted(
        spec=msgspec.structs.replace(spec, family="other", activation_reason=reason),
        base=base,
        heads={"none": 0, "pre-training": painter},
        default_head="none",
        block=block,
    )


def siglip_vision(config: Config) -> Counted:
    """Count the image tower of SigLIP: no class token; one learned query gathers the patches at the end."""
    image, patch, count, pixels = patches(config, 224, 16)
    spec = _spec(config, count, image, patch, activation=config.word("hidden_act", "gelu_pytorch_tanh"), bias=True)
    assert spec.hidden
    assert spec.ffn
    assert spec.layers is not None
    hidden, block = spec.hidden, block_of(spec.hidden, spec.ffn)
    base = linear(pixels, hidden) + count * hidden + spec.layers * block + 2 * hidden
    if config.flag("vision_use_head", True):
        base += block - 2 * hidden + hidden  # a block with one norm, and its query
    return Counted(spec=spec, base=base, heads={"none": 0}, default_head="none", block=block)


def clip_vision(config: Config) -> Counted:
    """Count the image tower of CLIP: patches without bias, norms before and after the blocks."""
    image, patch, count, pixels = patches(config, 224, 32)
    spec = _spec(config, count + 1, image, patch, activation=config.word("hidden_act", "quick_gelu"), bias=True)
    assert spec.hidden
    assert spec.ffn
    assert spec.layers is not None
    hidden, block = spec.hidden, block_of(spec.hidden, spec.ffn)
    base = pixels * hidden + hidden + (count + 1) * hidden + 4 * hidden + spec.layers * block
    heads = {"none": 0, "with-projection": hidden * config.count("projection_dim", 512)}
    return Counted(spec=spec, base=base, heads=heads, default_head="none", block=block)


def clip_text(config: Config) -> Counted:
    """Count the text tower of CLIP."""
    hidden, heads = config.count("hidden_size", 512), config.count("num_attention_heads", 8)
    spec = ModelSpec(
        family="transformer_encoder",
        layers=config.whole("num_hidden_layers", 12),
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads,
        ffn=config.count("intermediate_size", 2048),
        activation=config.word("hidden_act", "quick_gelu"),
        norm="layernorm",
        bias=True,
        vocab=config.count("vocab_size", 49408),
        max_positions=config.count("max_position_embeddings", 77),
        learned_positions=True,
    )
    assert spec.ffn
    assert spec.vocab
    assert spec.max_positions
    assert spec.layers is not None
    block = block_of(hidden, spec.ffn)
    base = (spec.vocab + spec.max_positions) * hidden + 2 * hidden + spec.layers * block
    deltas = {"none": 0, "with-projection": hidden * config.count("projection_dim", 512)}
    return Counted(spec=spec, base=base, heads=deltas, default_head="none", block=block)


def clip(config: Config) -> Counted:
    """Count CLIP: both towers, their projections without bias, and the logit scale."""
    image, text = clip_vision(config.inner("vision_config")), clip_text(config.inner("text_config"))
    assert image.spec.hidden
    assert text.spec.hidden
    projection = config.count("projection_dim", 512)
    towers = msgspec.structs.replace(text.spec, parameters=text.base)
    return Counted(
        spec=msgspec.structs.replace(image.spec, text=towers),
        base=image.base + text.base + (image.spec.hidden + text.spec.hidden) * projection + 1,
        heads={"none": 0},
        default_head="none",
        block=max(image.block, text.block),
    )


BUILDERS: dict[str, Builder] = {
    "vit": vit,
    "deit": deit,
    "beit": beit,
    "dinov2": dinov2,
    "dinov3_vit": dinov3,
    "vit_mae": masked_autoencoder,
    "siglip_vision_model": siglip_vision,
    "clip_vision_model": clip_vision,
    "clip_text_model": clip_text,
    "clip": clip,
}
