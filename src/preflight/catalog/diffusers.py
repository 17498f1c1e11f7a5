"""From a configuration of diffusers (``_class_name``) to the form of its network.

Absent keys have the defaults of the class. What the forms of ``vocabulary.network`` have no word for is an error that
names the key, not a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from preflight.catalog.families.counted import Config
from preflight.errors import InputError
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.network import DiffusionTransformer, UNet

# Tokens of the text that the pipelines of diffusers pass on, where a training script says nothing else: 77 of CLIP, with 256
# of T5 behind them (Stable Diffusion 3), 512 of T5 (Flux), 120 (PixArt-alpha).
_CLIP, _SD3, _FLUX, _PIXART = 77, 77 + 256, 512, 120
_LATENT = 8


def diffusers_spec(config: Mapping[str, Any]) -> ModelSpec | None:
    """Return the architecture of a configuration of diffusers, or None where its class has no form here.

    Raises:
        InputError: A value cannot be, or asks for something that the form has no word for.
    """
    name = config.get("_class_name")
    builder = _BUILDERS.get(name) if isinstance(name, str) else None
    return builder(Config(config)) if builder is not None else None


def diffusers_classes() -> tuple[str, ...]:
    """Return the classes that have a form here."""
    return tuple(sorted(_BUILDERS))


def _only(config: Config, **expected: object) -> None:
    """Raise for keys whose value is another than the only one that is counted."""
    for key, value in expected.items():
        given = config.values.get(key)
        if given is not None and given != value:
            raise InputError(f"model configuration: {key} {given!r} is not counted", f"{key}: {value!r}")


def _widths(config: Config, key: str, default: tuple[int, ...]) -> tuple[int, ...]:
    value = config.values.get(key)
    if value is None:
        return default
    if not isinstance(value, list | tuple) or not all(isinstance(one, int) and one > 0 for one in value) or not value:
        raise InputError(f"model configuration: {key} is no list of whole numbers: {value!r}")
    return tuple(value)


def _each(config: Config, key: str, levels: int, default: int) -> tuple[int, ...]:
    """Return a number for every level, given as one or as a list."""
    value = config.values.get(key)
    if isinstance(value, list | tuple):
        found = _widths(config, key, ())
        if len(found) != levels:
            raise InputError(f"model configuration: {key} has {len(found)} entries for {levels} levels")
        return found
    return (config.count(key, default),) * levels


def _types(config: Config, key: str, plain: str, attentive: str, default: tuple[str, ...]) -> tuple[bool, ...]:
    """Return for every block whether it has attention."""
    value = config.values.get(key)
    names = default if value is None else tuple(value)
    unknown = next((name for name in names if name not in (plain, attentive)), None)
    if unknown is not None:
        raise InputError(f"model configuration: {key} {unknown!r} is not counted", f"{plain} and {attentive} are")
    return tuple(name == attentive for name in names)


def _levels(config: Config, plain: tuple[str, str, str, str], downs: tuple[str, ...], ups: tuple[str, ...]) -> Any:
    """Return for every level whether it has attention on the way down, and on the way up."""
    down = _types(config, "down_block_types", plain[0], plain[1], downs)
    up = _types(config, "up_block_types", plain[2], plain[3], ups)
    return down, tuple(reversed(up))


def _conditional(config: Config) -> ModelSpec:
    """Read ``UNet2DConditionModel``."""
    _only(
        config, only_cross_attention=False, dual_cross_attention=False, resnet_time_scale_shift="default", conv_in_kernel=3,
        conv_out_kernel=3, time_embedding_type="positional", class_embed_type=None, encoder_hid_dim=None, act_fn="silu",
        attention_type="default", class_embeddings_concat=False, time_embedding_dim=None, time_cond_proj_dim=None,
        upcast_attention=False, cross_attention_norm=None, mid_block_only_cross_attention=False,
    )  # fmt: skip
    if config.values.get("addition_embed_type") not in (None, "text_time"):
        _only(config, addition_embed_type="text_time")
    channels = _widths(config, "block_out_channels", (320, 640, 1280, 1280))
    cross, plain = "CrossAttnDownBlock2D", "DownBlock2D"
    down, up = _levels(
        config, (plain, cross, "UpBlock2D", "CrossAttnUpBlock2D"), (cross, cross, cross, plain),
        ("UpBlock2D", *(("CrossAttnUpBlock2D",) * 3)),
    )  # fmt: skip
    levels = len(channels)
    if not len(down) == len(up) == levels:
        raise InputError(f"model configuration: {len(down)} and {len(up)} blocks for {levels} block_out_channels")
    depth = _each(config, "transformer_layers_per_block", levels, 1)
    middle = config.values.get("mid_block_type", "UNetMidBlock2DCrossAttn")
    if middle not in (None, "UNetMidBlock2DCrossAttn"):
        _only(config, mid_block_type="UNetMidBlock2DCrossAttn")
    added = config.count("projection_class_embeddings_input_dim", 1) if config.word("addition_embed_type", "") else 0
    widths = set(_each(config, "cross_attention_dim", levels, 1280))
    if len(widths) > 1:
        raise InputError("model configuration: cross_attention_dim that differs by level is not counted")
    network = UNet(
        channels=channels, resnets=_each(config, "layers_per_block", levels, 2), middle=depth[-1] if middle else None,
        transformers=tuple(n * on for n, on in zip(depth, down, strict=True)), has_middle=middle is not None,
        transformers_up=tuple(n * on for n, on in zip(depth, up, strict=True)), text_width=widths.pop(), text_tokens=_CLIP,
        heads=_each(config, "attention_head_dim", levels, 8), linear_projection=config.flag("use_linear_projection", False),
        in_channels=config.count("in_channels", 4), out_channels=config.count("out_channels", 4), added_width=added,
        classes=config.whole("num_class_embeds", 0), scale=_LATENT,
    )  # fmt: skip
    return _unet_spec(config, network, 64)


def _unconditional(config: Config) -> ModelSpec:
    """Read ``UNet2DModel``, which works on the pixels themselves."""
    _only(
        config, resnet_time_scale_shift="default", time_embedding_type="positional", class_embed_type=None, act_fn="silu",
        downsample_type="conv", upsample_type="conv", time_embedding_dim=None,
    )  # fmt: skip
    channels = _widths(config, "block_out_channels", (224, 448, 672, 896))
    attentive = "AttnDownBlock2D"
    down, up = _levels(
        config, ("DownBlock2D", attentive, "UpBlock2D", "AttnUpBlock2D"), ("DownBlock2D", *((attentive,) * 3)),
        (*(("AttnUpBlock2D",) * 3), "UpBlock2D"),
    )  # fmt: skip
    levels = len(channels)
    if not len(down) == len(up) == levels:
        raise InputError(f"model configuration: {len(down)} and {len(up)} blocks for {levels} block_out_channels")
    head = config.maybe("attention_head_dim", 8)
    _only(config, mid_block_type="UNetMidBlock2D")
    network = UNet(
        channels=channels, resnets=_each(config, "layers_per_block", levels, 2), transformers=tuple(map(int, down)),
        transformers_up=tuple(map(int, up)), middle=1 if config.flag("add_attention", True) else None,
        has_middle=config.values.get("mid_block_type", "") is not None, cross_attention=False,
        heads=tuple(width // head if head else 1 for width in channels), in_channels=config.count("in_channels", 3),
        out_channels=config.count("out_channels", 3), classes=config.whole("num_class_embeds", 0), scale=1,
    )  # fmt: skip
    return _unet_spec(config, network, 32)


def _unet_spec(config: Config, network: UNet, sample: int) -> ModelSpec:
    blocks = sum(network.resnets) + sum(n + 1 for n in network.resnets) + 2 * network.has_middle
    return ModelSpec(
        family="diffusion_model", layers=blocks, hidden=network.channels[0], heads=max(network.heads), norm="groupnorm",
        activation="silu", channels=network.in_channels, image_size=config.side("sample_size", sample)[0] * network.scale,
        dropout=config.ratio("dropout", 0.0), network=network, library="diffusers",
        class_name=config.word("_class_name", ""),
    )  # fmt: skip


def _spec(config: Config, network: DiffusionTransformer, sample: int) -> ModelSpec:
    side = config.side("sample_size", sample)[0]
    return ModelSpec(
        family="diffusion_model", layers=network.blocks + network.single_blocks, hidden=network.hidden, heads=network.heads,
        ffn=network.ffn, norm="layernorm", activation="gelu", channels=network.in_channels, patch_size=network.patch,
        image_size=side * network.scale, tokens_per_image=(side // network.patch) ** 2, network=network,
        dropout=config.ratio("dropout", 0.0), library="diffusers", class_name=config.word("_class_name", ""),
        classes=network.classes or None,
    )  # fmt: skip


def _sizes(config: Config, heads: int, head: int) -> dict[str, Any]:
    count = config.count("num_attention_heads", heads)
    hidden = count * config.count("attention_head_dim", head)
    return {"hidden": hidden, "heads": count, "ffn": 4 * hidden}


def _dit(config: Config) -> ModelSpec:
    """Read ``DiTTransformer2DModel``: every block embeds time step and label itself."""
    _only(config, activation_fn="gelu-approximate", norm_type="ada_norm_zero", attention_bias=True)
    _only(config, norm_elementwise_affine=False, upcast_attention=False)
    channels = config.count("in_channels", 4)
    network = DiffusionTransformer(
        style="dit", blocks=config.count("num_layers", 28), patch=config.count("patch_size", 2), in_channels=channels,
        out_channels=config.count("out_channels", channels), classes=config.count("num_embeds_ada_norm", 1000),
        own_embeddings=True, **_sizes(config, 16, 72),
    )  # fmt: skip
    return _spec(config, network, 32)


def _pixart(config: Config) -> ModelSpec:
    """Read ``PixArtTransformer2DModel``; the sizes are conditions where nothing is said and the side is 128."""
    _only(config, activation_fn="gelu-approximate", norm_type="ada_norm_single", attention_bias=True)
    _only(config, norm_elementwise_affine=False, upcast_attention=False, attention_type="default")
    sizes, channels = _sizes(config, 16, 72), config.count("in_channels", 4)
    if config.count("cross_attention_dim", sizes["hidden"]) != sizes["hidden"]:
        raise InputError("model configuration: a cross_attention_dim that is not the width is not counted")
    if not config.whole("caption_channels", 0):
        raise InputError("model configuration: a text without caption_channels is not counted")
    network = DiffusionTransformer(
        style="pixart", blocks=config.count("num_layers", 28), patch=config.count("patch_size", 2), in_channels=channels,
        out_channels=config.count("out_channels", 8), text_width=config.count("caption_channels", 4096),
        sizes=config.flag("use_additional_conditions", config.side("sample_size", 128)[0] == 128), text_tokens=_PIXART,
        **sizes,
    )  # fmt: skip
    return _spec(config, network, 128)


def _sd3(config: Config) -> ModelSpec:
    """Read ``SD3Transformer2DModel``."""
    sizes = _sizes(config, 18, 64)
    if config.count("caption_projection_dim", sizes["hidden"]) != sizes["hidden"]:
        raise InputError("model configuration: a caption_projection_dim that is not the width is not counted")
    norm = config.values.get("qk_norm")
    if norm not in (None, "rms_norm"):
        _only(config, qk_norm="rms_norm")
    dual = config.values.get("dual_attention_layers") or ()
    if list(dual) != list(range(len(dual))):
        raise InputError("model configuration: dual_attention_layers that are not the first ones are not counted")
    network = DiffusionTransformer(
        style="sd3", blocks=config.count("num_layers", 18), patch=config.count("patch_size", 2), dual_blocks=len(dual),
        in_channels=config.count("in_channels", 16), out_channels=config.count("out_channels", 16), qk_norm=bool(norm),
        text_width=config.count("joint_attention_dim", 4096), text_tokens=_SD3,
        pooled_width=config.count("pooled_projection_dim", 2048), **sizes,
    )  # fmt: skip
    return _spec(config, network, 128)


def _flux(config: Config) -> ModelSpec:
    """Read ``FluxTransformer2DModel``, whose input channels hold patches of four pixels already."""
    packed = config.count("in_channels", 64)
    if config.count("patch_size", 1) != 1 or packed % 4:
        raise InputError("model configuration: patches of a size other than that of the packed input are not counted")
    channels = packed // 4
    network = DiffusionTransformer(
        style="flux", blocks=config.whole("num_layers", 19), single_blocks=config.whole("num_single_layers", 38), patch=2,
        in_channels=channels, out_channels=config.count("out_channels", packed) // 4,
        guidance=config.flag("guidance_embeds", False), text_width=config.count("joint_attention_dim", 4096),
        text_tokens=_FLUX, pooled_width=config.count("pooled_projection_dim", 768), **_sizes(config, 24, 128),
    )  # fmt: skip
    return _spec(config, network, 128)


_BUILDERS: dict[str, Callable[[Config], ModelSpec]] = {
    "UNet2DConditionModel": _conditional,
    "UNet2DModel": _unconditional,
    "DiTTransformer2DModel": _dit,
    "PixArtTransformer2DModel": _pixart,
    "SD3Transformer2DModel": _sd3,
    "FluxTransformer2DModel": _flux,
}
