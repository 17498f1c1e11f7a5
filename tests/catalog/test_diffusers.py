"""Configurations of diffusers: forms whose parameters are those that diffusers itself counts."""

from __future__ import annotations

from typing import Any

import pytest

from preflight.catalog.architectures import find_model
from preflight.catalog.configurations import spec_from_config
from preflight.catalog.diffusers import diffusers_classes, diffusers_spec
from preflight.cost.parameters import count_parameters
from preflight.errors import InputError

# Counts of diffusers 0.42.1 on the meta device.
COUNTS: tuple[tuple[str, dict[str, Any], int], ...] = (
    ("UNet2DConditionModel", {"cross_attention_dim": 768}, 859_520_964),
    (
        "UNet2DConditionModel",
        {
            "block_out_channels": [384, 768, 1536, 1536], "transformer_layers_per_block": 4, "cross_attention_dim": 1280,
            "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"],
            "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
            "attention_head_dim": [6, 12, 24, 24], "use_linear_projection": True, "addition_embed_type": "text_time",
            "addition_time_embed_dim": 256, "projection_class_embeddings_input_dim": 2560,
        },
        2_259_526_660,
    ),
    ("UNet2DModel", {}, 274_056_163),
    (
        "UNet2DModel",
        {
            "sample_size": 128, "block_out_channels": [128, 128, 256, 256, 512, 512],
            "down_block_types": [*["DownBlock2D"] * 4, "AttnDownBlock2D", "DownBlock2D"],
            "up_block_types": ["UpBlock2D", "AttnUpBlock2D", *["UpBlock2D"] * 4],
        },
        113_673_219,
    ),
    ("DiTTransformer2DModel", {}, 749_808_016),
    ("PixArtTransformer2DModel", {"caption_channels": 4096}, 611_349_152),
    ("PixArtTransformer2DModel", {"caption_channels": 4096, "sample_size": 64}, 610_856_096),
    (
        "SD3Transformer2DModel",
        {"num_layers": 24, "num_attention_heads": 24, "caption_projection_dim": 1536, "qk_norm": "rms_norm",
         "dual_attention_layers": list(range(13))},
        2_243_171_520,
    ),
    (
        "SD3Transformer2DModel",
        {"num_layers": 38, "num_attention_heads": 38, "caption_projection_dim": 2432, "qk_norm": "rms_norm"},
        8_056_627_520,
    ),
    ("FluxTransformer2DModel", {}, 11_891_178_560),
)  # fmt: skip


@pytest.mark.parametrize(("name", "config", "parameters"), COUNTS)
def test_the_form_of_a_configuration_has_the_parameters_of_the_class(
    name: str, config: dict[str, Any], parameters: int
) -> None:
    spec = spec_from_config({"_class_name": name} | config)
    assert spec is not None
    assert spec.family == "diffusion_model"
    count = count_parameters(spec)
    assert count is not None
    assert count.total == parameters


@pytest.mark.parametrize("name", ["sd15", "sd21", "sdxl", "pixart", "DiT-XL/2", "sd3-medium", "flux"])
def test_the_form_of_the_catalog_has_the_published_parameters(name: str) -> None:
    spec = find_model(name)
    assert spec is not None
    assert spec.network is not None
    count = count_parameters(spec)
    assert count is not None
    assert count.exact
    assert count.total == spec.parameters
    outside = count.embedding + count.head + count.norm
    assert count.block * count.block_count + count.other_blocks + outside == spec.parameters


def test_every_class_is_tried() -> None:
    assert {name for name, _, _ in COUNTS} == set(diffusers_classes())


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"_class_name": "UNet2DConditionModel", "mid_block_type": "UNetMidBlock2DSimpleCrossAttn"}, "mid_block_type"),
        ({"_class_name": "UNet2DConditionModel", "down_block_types": ["SkipDownBlock2D"]}, "SkipDownBlock2D"),
        ({"_class_name": "UNet2DConditionModel", "block_out_channels": [320, 640]}, "for 2 block_out_channels"),
        ({"_class_name": "UNet2DConditionModel", "attention_head_dim": [8, 8]}, "2 entries for 4 levels"),
        ({"_class_name": "UNet2DConditionModel", "block_out_channels": "320"}, "no list of whole numbers"),
        ({"_class_name": "UNet2DModel", "resnet_time_scale_shift": "scale_shift"}, "resnet_time_scale_shift"),
        ({"_class_name": "PixArtTransformer2DModel"}, "caption_channels"),
        ({"_class_name": "SD3Transformer2DModel", "dual_attention_layers": [3]}, "dual_attention_layers"),
        ({"_class_name": "FluxTransformer2DModel", "patch_size": 2}, "packed input"),
        ({"_class_name": "DiTTransformer2DModel", "num_layers": -1}, "num_layers"),
    ],
)
def test_what_the_form_has_no_word_for_is_an_error_that_names_it(config: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        diffusers_spec(config)


def test_another_class_is_not_taken_for_one() -> None:
    assert diffusers_spec({"_class_name": "AutoencoderKL"}) is None
    assert spec_from_config({"_class_name": "AutoencoderKL"}) is None
