"""The counts of the catalog and of the formulas against the libraries' own classes on the meta device."""

from __future__ import annotations

import random
from typing import Any

import pytest

from preflight.catalog.architectures import ModelFile, model_file, model_names
from preflight.catalog.configurations import model_types, spec_from_config

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

FILES = {name: model_file(name) for name in model_names()}
OF_TRANSFORMERS = sorted(name for name, content in FILES.items() if content.config and "model_type" in content.config)
OF_TIMM = sorted(name for name, content in FILES.items() if content.library == "timm")
OF_TORCHVISION = sorted(name for name, content in FILES.items() if content.library == "torchvision")


def held(model: Any) -> int:
    """Return the parameters that a module holds, shared ones once."""
    return sum(parameter.numel() for parameter in model.parameters())


def library_config(config: dict[str, Any]) -> Any:
    pytest.importorskip("transformers")
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    values = {key: value for key, value in config.items() if key != "model_type"}
    return CONFIG_MAPPING[config["model_type"]](**values)


def test_most_of_the_catalog_is_compared_with_a_class() -> None:
    assert len(OF_TRANSFORMERS) >= 80


def expected(content: ModelFile, real: Any) -> int:
    """Return the count to find: that of the file, or the formula's where the library overrides the tying.

    transformers 5 ties the output matrix of T5 1.1 and mT5 although their configurations say not to.
    """
    said = content.configuration().get("tie_word_embeddings")
    if said is False and real.tie_word_embeddings is True:
        spec = spec_from_config({**content.configuration(), "tie_word_embeddings": True}, content.class_name)
        assert spec is not None
        assert spec.parameters is not None
        return spec.parameters
    return content.parameters


@pytest.mark.parametrize("name", OF_TRANSFORMERS)
def test_a_transformers_model_holds_what_the_catalog_says(name: str) -> None:
    transformers = pytest.importorskip("transformers")
    content = FILES[name]
    config = library_config(content.configuration())
    with torch.device("meta"):
        model = getattr(transformers, content.class_name)(config)
    assert held(model) == expected(content, config)


@pytest.mark.parametrize("name", OF_TIMM)
def test_a_timm_model_holds_what_the_catalog_says(name: str, timm: Any) -> None:
    content = FILES[name]
    with torch.device("meta"):
        model = timm.create_model(content.class_name)
    assert held(model) == content.parameters
    if content.base_parameters is not None:
        model.reset_classifier(0)
        assert held(model) == content.base_parameters


def test_the_inception_network_of_torchvision_is_timm_s_with_its_auxiliary_head(timm: Any) -> None:
    # torchvision itself has no build for PyTorch's CPU wheels. Both libraries hold the same published network.
    with torch.device("meta"):
        model = timm.create_model("inception_v3", aux_logits=True)
    assert [held(model)] == [FILES[name].parameters for name in OF_TORCHVISION]


# Small sizes for the keys by which configurations name their widths; heads divide every width.
SIZES: dict[str, tuple[int, ...]] = {
    "vocab_size": (96, 130), "hidden_size": (64, 128), "n_embd": (64, 128), "d_model": (64, 128), "dim": (64, 128),
    "intermediate_size": (48, 160), "ffn_dim": (48, 160), "hidden_dim": (48, 160), "d_ff": (48, 160),
    "n_inner": (48, 160), "ffn_hidden_size": (48, 160), "encoder_ffn_dim": (48, 160), "decoder_ffn_dim": (48, 160),
    "num_hidden_layers": (1, 3), "n_layer": (1, 3), "num_layers": (2, 4), "n_layers": (1, 3),
    "encoder_layers": (1, 3), "decoder_layers": (1, 2), "num_decoder_layers": (1, 3),
    "num_attention_heads": (4, 8), "n_head": (4, 8), "num_heads": (4, 8), "n_heads": (4, 8),
    "encoder_attention_heads": (4, 8), "decoder_attention_heads": (4, 8),
    "num_key_value_heads": (2, 4), "num_kv_heads": (2, 4), "head_dim": (16, 32), "d_kv": (16, 24),
    "max_position_embeddings": (40, 66), "n_positions": (40, 66), "type_vocab_size": (1, 2),
    "embedding_size": (32, 64), "word_embed_proj_dim": (32, 64),
    "moe_intermediate_size": (24, 40), "shared_expert_intermediate_size": (24, 40), "intermediate_size_mlp": (48, 96),
    "num_experts": (4, 6), "num_local_experts": (4, 6), "n_routed_experts": (8, 16), "n_shared_experts": (1, 2),
    "n_group": (1,), "topk_group": (1,), "num_experts_per_tok": (1, 2), "first_k_dense_replace": (0, 1),
    "q_lora_rank": (24,), "kv_lora_rank": (16, 24), "qk_nope_head_dim": (16,), "qk_rope_head_dim": (8,),
    "v_head_dim": (16, 24), "decoder_sparse_step": (1, 2), "interleave_moe_layer_step": (1, 2),
    "image_size": (32, 48), "patch_size": (8, 16), "num_channels": (1, 3), "mlp_ratio": (2, 4),
    "num_mel_bins": (20, 32), "max_source_positions": (30,), "max_target_positions": (20, 24),
    "relative_attention_num_buckets": (8, 32), "num_labels": (1, 7), "position_buckets": (-1, 16),
    "state_size": (8, 16), "conv_kernel": (2, 4), "time_step_rank": (4, 6), "n_groups": (1, 2), "embed_dim": (16, 32),
    "linear_num_key_heads": (2, 4), "linear_num_value_heads": (4, 8), "linear_key_head_dim": (8, 16),
    "linear_value_head_dim": (8, 16), "linear_conv_kernel_dim": (2, 4), "window_size": (4, 7),
    "num_register_tokens": (0, 4), "decoder_hidden_size": (32, 64), "decoder_intermediate_size": (48, 96),
    "decoder_num_hidden_layers": (1, 2), "num_conv_pos_embeddings": (16,), "num_conv_pos_embedding_groups": (4,), "projection_dim": (32, 48),
}  # fmt: skip
FLAGS = (
    "tie_word_embeddings", "attention_bias", "mlp_bias", "use_qkv_bias", "qkv_bias", "qk_layernorm", "bias",
    "use_parallel_residual", "parallel_attn", "multi_query", "new_decoder_architecture", "do_layer_norm_before",
    "layer_norm_elementwise_affine", "enable_bias", "relative_attention", "share_att_key", "position_biased_input",
    "use_relative_position_bias", "use_absolute_position_embeddings", "use_mask_token", "use_swiglu_ffn", "conv_bias",
    "use_bias", "use_qk_norm", "attention_out_bias", "use_conv_bias", "lm_head_bias", "downsample_in_first_stage",
    "use_absolute_embeddings", "query_bias", "key_bias", "value_bias", "proj_bias", "use_gated_mlp", "vision_use_head",
)  # fmt: skip


def draw(model_type: str, seed: int) -> dict[str, Any]:
    """Draw a small configuration of one type, with some keys left to the library's defaults."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    choose = random.Random(f"{model_type}-{seed}")
    known = CONFIG_MAPPING[model_type]().to_dict()
    config: dict[str, Any] = {"model_type": model_type}
    if model_type == "clip":
        for part, tower in (("text_config", "clip_text_model"), ("vision_config", "clip_vision_model")):
            config[part] = {k: v for k, v in draw(tower, seed).items() if k not in ("model_type", "num_labels")}
        return config
    for key, sizes in SIZES.items():
        drawn = key == "num_labels" or (key in known and choose.random() < 0.85)
        if drawn and not isinstance(known.get(key), (list, tuple)):  # a list is one for each layer
            config[key] = choose.choice(sizes)
    for key in FLAGS:
        if isinstance(known.get(key), bool) and choose.random() < 0.4:
            config[key] = choose.random() < 0.5
    return _possible(config, known, choose)


def _possible(config: dict[str, Any], known: dict[str, Any], choose: random.Random) -> dict[str, Any]:
    """Mend what the library itself refuses: widths that heads do not divide, attention patterns, one-sided stacks."""
    for key in ("hidden_size", "n_embd", "d_model", "dim"):
        if key in known:
            config[key] = choose.choice((64, 128))
    for key in ("num_attention_heads", "n_head", "num_heads", "n_heads"):
        if key in known and "d_kv" not in known:
            config[key] = choose.choice((4, 8))
    for key in ("encoder_attention_heads", "decoder_attention_heads"):
        if key in known:
            config[key] = choose.choice((4, 8))
    if "patch_size" in known:
        config["patch_size"], config["image_size"] = choose.choice((8, 16)), choose.choice((32, 48))
    if "attention_types" in known:
        config["num_layers"] = choose.choice((2, 4))
        config["attention_types"] = [[["global", "local"], config["num_layers"] // 2]]
    if "num_key_value_heads" in known and isinstance(known["num_key_value_heads"], int):
        config["num_key_value_heads"] = choose.choice((2, 4))
    if "rotary_dim" in known:
        config["rotary_dim"] = 8
    if config["model_type"] == "distilbert":
        config["num_labels"] = 2  # its question-answering class refuses any other number
    if "pad_token_id" in known:
        config["pad_token_id"] = 0
    if config["model_type"] == "mamba2":
        config["head_dim"], config["num_heads"] = 16, config["hidden_size"] // 8  # heads share the doubled width
    if "depths" in known:
        config["depths"] = choose.choice(([1, 2], [2, 1]))
        config |= {"layer_type": choose.choice(("basic", "bottleneck")), "num_stages": 2}
        config |= (
            {"num_heads": [2, 4]} if "num_heads" in known else {"hidden_sizes": choose.choice(([16, 32], [64, 64]))}
        )
    if "pos_att_type" in known:
        config["pos_att_type"] = choose.choice((["p2c", "c2p"], ["c2p"], ["p2c"]))
        config["norm_rel_ebd"] = choose.choice(("none", "layer_norm"))
    return config


HEADS = (
    "MODEL_MAPPING", "MODEL_FOR_CAUSAL_LM_MAPPING", "MODEL_FOR_MASKED_LM_MAPPING", "MODEL_FOR_CTC_MAPPING",
    "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING", "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING",
    "MODEL_FOR_QUESTION_ANSWERING_MAPPING", "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING",
    "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING", "MODEL_FOR_MULTIPLE_CHOICE_MAPPING", "MODEL_FOR_PRETRAINING_MAPPING",
)  # fmt: skip


def classes(config: Any) -> list[Any]:
    """Return the classes that the library offers for a configuration, one for each head."""
    from transformers.models.auto import modeling_auto

    found = {}
    for mapping in HEADS:
        try:
            offered = getattr(modeling_auto, mapping)[type(config)]
        except KeyError:
            continue
        for one in offered if isinstance(offered, tuple | list) else [offered]:
            found[one.__name__] = one
    return list(found.values())


@pytest.mark.parametrize("model_type", model_types())
def test_the_formula_is_exact_for_drawn_configurations(model_type: str) -> None:
    pytest.importorskip("transformers")
    compared = 0
    for seed in range(4):
        drawn = draw(model_type, seed)
        config = library_config(drawn)
        tied = {"tie_word_embeddings": config.tie_word_embeddings} if "tie_word_embeddings" in drawn else {}
        for offered in classes(config):
            spec = spec_from_config({**drawn, **tied}, offered.__name__)
            assert spec is not None
            if spec.parameters is None:
                assert spec.parameters_reason
                continue
            with torch.device("meta"):
                model = offered(config)
            assert spec.parameters == held(model), (offered.__name__, drawn)
            encoder = getattr(getattr(model, "model", model), "encoder", None)
            if spec.encoder_parameters is not None and encoder is not None:
                assert spec.encoder_parameters == held(encoder), (offered.__name__, drawn)
            compared += 1
    assert compared >= 4
