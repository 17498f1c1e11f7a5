"""Decoders with routed experts: Mixtral, Phi MoE, MiniMax, Qwen MoE, GLM MoE, GPT-OSS, DeepSeek V2 and V3, Llama 4.

A routed layer holds ``experts`` feed-forward layers and a router; a token passes through ``experts_per_token`` of them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from preflight.catalog.families.counted import Builder, Config, Counted, linear
from preflight.catalog.families.rotary import TRAITS, Traits, attention, causal_heads, describe
from preflight.vocabulary.model import ModelSpec


def assemble(
    config: Config, spec: ModelSpec, attention_and_norms: int, dense: int, routed: int, expert: int, dense_layers: int
) -> Counted:
    """Add up a decoder of which ``dense_layers`` have one feed-forward layer and the others experts.

    Args:
        config: The configuration.
        spec: The architecture.
        attention_and_norms: Parameters of a block besides its feed-forward part.
        dense: Parameters of a dense feed-forward layer.
        routed: Parameters of a routed layer: router, shared and routed experts.
        expert: Parameters of one routed expert.
        dense_layers: Layers without experts.
    """
    assert spec.hidden
    assert spec.vocab
    assert spec.layers is not None
    dense_layers = min(dense_layers, spec.layers)
    sparse_layers = spec.layers - dense_layers
    base = spec.vocab * spec.hidden + spec.hidden
    base += spec.layers * attention_and_norms + dense_layers * dense + sparse_layers * routed
    return Counted(
        spec=msgspec.structs.replace(spec, dense_layers=dense_layers),
        base=base,
        heads=causal_heads(config, spec.hidden, spec.vocab, bool(spec.tied_embeddings)),
        default_head="causal-lm",
        block=attention_and_norms + (routed if sparse_layers else dense),
        idle=sparse_layers * max(0, spec.experts - spec.experts_per_token) * expert,
    )


def _moe(config: Config, traits: Traits, **more: Any) -> ModelSpec:
    return describe(config, traits, family="moe", **more)


def all_routed(config: Config, traits: Traits, experts: int, chosen: int, key: str = "num_local_experts") -> Counted:
    """Count a decoder in which every layer is routed, without shared experts.

    Args:
        config: The configuration.
        traits: The defaults of the type; ``ffn`` is the width of one expert.
        experts: The default number of experts.
        chosen: The default number of experts of a token.
        key: The key that gives the number of experts.
    """
    experts = config.whole(key, experts)
    ffn = config.count("intermediate_size", traits.ffn)
    chosen = config.whole("num_experts_per_tok", chosen)
    spec = _moe(config, traits, experts=experts, experts_per_token=chosen, expert_ffn=ffn)
    assert spec.hidden
    expert = 3 * spec.hidden * ffn
    routed = experts * expert + spec.hidden * experts
    norm = traits.norm_vectors * spec.hidden
    counted = assemble(config, spec, attention(config, traits) + 2 * norm, 0, routed, expert, 0)
    return msgspec.structs.replace(counted, base=counted.base + norm - spec.hidden)


def mixtral(config: Config) -> Counted:
    """Count Mixtral."""
    return all_routed(config, msgspec.structs.replace(TRAITS["mistral"], ffn=14336, kv_heads=8), experts=8, chosen=2)


def granite_moe(config: Config) -> Counted:
    """Count Granite MoE: as Mixtral, with keys and values of every head unless said otherwise."""
    return all_routed(config, TRAITS["granite"], experts=8, chosen=2)


def olmoe(config: Config) -> Counted:
    """Count OLMoE: queries and keys normalised over all heads."""
    traits = Traits(
        vocab=50304, hidden=2048, ffn=2048, layers=16, heads=16, attention_bias_key="attention_bias", head_norms="full",
        positions=4096,
    )  # fmt: skip
    return all_routed(config, traits, experts=64, chosen=8, key="num_experts")


def minimax_m2(config: Config) -> Counted:
    """Count MiniMax M2: as Mixtral, with queries and keys normalised over all heads."""
    traits = Traits(
        vocab=200064, hidden=3072, ffn=1536, layers=62, heads=48, kv_heads=8, head_dim=128, head_norms="full",
        positions=196608,
    )  # fmt: skip
    return all_routed(config, traits, experts=256, chosen=8)


def phimoe(config: Config) -> Counted:
    """Count Phi 3.5 MoE: layer norms with a bias, and a bias on the output matrix where it is asked for."""
    traits = Traits(
        vocab=32064, ffn=6400, kv_heads=8, attention_bias_key="attention_bias", norm="layernorm", norm_vectors=2,
        positions=131072, window=True,
    )  # fmt: skip
    counted = all_routed(config, traits, experts=16, chosen=2)
    assert counted.spec.vocab
    if config.flag("lm_head_bias", False):
        counted.heads["causal-lm"] += counted.spec.vocab
    return counted


def glm4_moe(config: Config) -> Counted:
    """Count GLM 4.5: some dense layers first, then routed ones with shared experts; no bias on attention's output."""
    traits = Traits(
        vocab=151552, ffn=10944, layers=46, heads=96, kv_heads=8, qkv_bias_key="attention_bias",
        head_norms="head" if config.flag("use_qk_norm", False) else None, positions=131072,
    )  # fmt: skip
    experts, shared = config.whole("n_routed_experts", 128), config.whole("n_shared_experts", 1)
    inner = config.count("moe_intermediate_size", 1408)
    chosen = config.whole("num_experts_per_tok", 8)
    spec = _moe(config, traits, experts=experts, experts_per_token=chosen, expert_ffn=inner, shared_experts=shared)
    assert spec.hidden
    assert spec.ffn
    expert = 3 * spec.hidden * inner
    routed = experts * expert + spec.hidden * experts + shared * expert
    around = attention(config, traits) + 2 * spec.hidden
    return assemble(
        config, spec, around, 3 * spec.hidden * spec.ffn, routed, expert, config.whole("first_k_dense_replace", 1)
    )


def sparse_layer_count(config: Config, layers: int) -> int:
    """Return how many layers are routed by ``decoder_sparse_step`` and ``mlp_only_layers``."""
    step = config.count("decoder_sparse_step", 1)
    only = config.values.get("mlp_only_layers") or []
    return sum(1 for index in range(layers) if index not in only and (index + 1) % step == 0)


def qwen_moe(
    config: Config, traits: Traits, expert_ffn: int, experts: int, chosen: int, shared: bool, shared_ffn: int = 5632
) -> Counted:
    """Count a Qwen MoE; Qwen 2 has a shared expert with a one-column gate, Qwen 3 has none."""
    experts = config.whole("num_experts", config.whole("num_local_experts", experts))
    inner = config.count("moe_intermediate_size", expert_ffn)
    shared_ffn = config.whole("shared_expert_intermediate_size", shared_ffn) if shared else 0
    spec = _moe(
        config,
        traits,
        experts=experts,
        experts_per_token=config.whole("num_experts_per_tok", chosen),
        expert_ffn=inner,
        shared_experts=1 if shared_ffn else 0,
    )
    assert spec.hidden
    assert spec.ffn
    assert spec.layers is not None
    expert = 3 * spec.hidden * inner
    routed = experts * expert + spec.hidden * experts
    if shared:
        routed += 3 * spec.hidden * shared_ffn + spec.hidden
    dense_layers = spec.layers - (sparse_layer_count(config, spec.layers) if experts else 0)
    around = attention(config, traits) + 2 * spec.hidden
    return assemble(config, spec, around, 3 * spec.hidden * spec.ffn, routed, expert, dense_layers)


def qwen2_moe(config: Config) -> Counted:
    """Count Qwen 1.5 and 2 MoE."""
    bias = config.flag("qkv_bias", True)
    traits = Traits(
        vocab=151936, hidden=2048, ffn=5632, layers=24, heads=16, kv_heads=16, query_bias=bias, positions=32768
    )
    return qwen_moe(config, traits, 1408, 60, 4, shared=True)


def qwen3_moe(config: Config) -> Counted:
    """Count Qwen 3 MoE."""
    traits = Traits(
        vocab=151936, hidden=2048, ffn=6144, layers=24, heads=32, kv_heads=4, attention_bias_key="attention_bias",
        head_norms="head", positions=32768,
    )  # fmt: skip
    return qwen_moe(config, traits, 768, 128, 8, shared=False)


def gpt_oss(config: Config) -> Counted:
    """Count GPT-OSS: biases everywhere, one learned sink for each head."""
    bias = config.flag("attention_bias", True)
    traits = Traits(
        vocab=201088, hidden=2880, ffn=2880, layers=36, heads=64, kv_heads=8, head_dim=64,
        query_bias=bias, output_bias=bias, positions=131072, window=True,
    )  # fmt: skip
    experts = config.whole("num_local_experts", 128)
    inner = config.count("intermediate_size", 2880)
    spec = _moe(
        config, traits, experts=experts, experts_per_token=config.whole("num_experts_per_tok", 4), expert_ffn=inner
    )
    assert spec.hidden
    assert spec.heads
    expert = linear(spec.hidden, 2 * inner) + linear(inner, spec.hidden)
    routed = experts * expert + linear(spec.hidden, experts)
    around = attention(config, traits) + spec.heads + 2 * spec.hidden
    return assemble(config, spec, around, 0, routed, expert, 0)


def latent_attention(config: Config, hidden: int, heads: int) -> int:
    """Return the parameters of multi-head latent attention (DeepSeek-V2, section 2.1).

    Queries go through a rank of ``q_lora_rank`` (or straight, when null), keys and values through ``kv_lora_rank``
    with one rotary part shared by all heads.
    """
    nope, rope = config.whole("qk_nope_head_dim", 128), config.whole("qk_rope_head_dim", 64)
    value = config.whole("v_head_dim", 128)
    rank = config.whole("kv_lora_rank", 512)
    bias = config.flag("attention_bias", False)
    query_rank = config.maybe("q_lora_rank", 1536)
    if query_rank is None:
        total = hidden * heads * (nope + rope)
    else:
        total = linear(hidden, query_rank, bias) + query_rank + query_rank * heads * (nope + rope)
    total += linear(hidden, rank + rope, bias) + rank + rank * heads * (nope + value)
    return total + linear(heads * value, hidden, bias)


def deepseek(config: Config, traits: Traits, defaults: dict[str, int]) -> Counted:
    """Count DeepSeek V2 and V3 without the multi-token-prediction layers, as the library's classes hold them."""
    experts = config.whole("n_routed_experts", defaults["experts"])
    shared = config.whole("n_shared_experts", defaults["shared"])
    inner = config.count("moe_intermediate_size", defaults["expert_ffn"])
    nope, rope = config.whole("qk_nope_head_dim", 128), config.whole("qk_rope_head_dim", 64)
    spec = _moe(
        config,
        traits,
        head_dim=nope + rope,
        experts=experts,
        experts_per_token=config.whole("num_experts_per_tok", defaults["chosen"]),
        expert_ffn=inner,
        shared_experts=shared,
        q_lora_rank=config.maybe("q_lora_rank", 1536),
        kv_lora_rank=config.whole("kv_lora_rank", 512),
        rope_head_dim=rope,
        value_head_dim=config.whole("v_head_dim", 128),
    )
    assert spec.hidden
    assert spec.heads
    assert spec.ffn
    expert = 3 * spec.hidden * inner
    routed = experts * expert + spec.hidden * experts + 3 * spec.hidden * inner * shared
    around = latent_attention(config, spec.hidden, spec.heads) + 2 * spec.hidden
    bias = config.flag("mlp_bias", False)
    routed += 2 * inner * shared + spec.hidden if bias and shared else 0
    dense = 2 * linear(spec.hidden, spec.ffn, bias) + linear(spec.ffn, spec.hidden, bias)
    return assemble(
        config, spec, around, dense, routed, expert, config.whole("first_k_dense_replace", defaults["dense"])
    )


def deepseek_v2(config: Config) -> Counted:
    """Count DeepSeek V2."""
    defaults = {"experts": 64, "shared": 2, "expert_ffn": 1407, "chosen": 0, "dense": 0}
    return deepseek(config, Traits(vocab=102400), defaults)


def deepseek_v3(config: Config) -> Counted:
    """Count DeepSeek V3 and R1."""
    traits = Traits(vocab=129280, hidden=7168, ffn=18432, layers=61, heads=128, kv_heads=128, positions=4096)
    defaults = {"experts": 256, "shared": 1, "expert_ffn": 2048, "chosen": 8, "dense": 3}
    return deepseek(config, traits, defaults)


def llama4_text(config: Config) -> Counted:
    """Count the text model of Llama 4: a shared expert beside the routed ones, every ``n``-th layer routed."""
    traits = Traits(
        vocab=202048, hidden=5120, ffn=8192, layers=48, heads=40, kv_heads=8, head_dim=128,
        attention_bias_key="attention_bias", positions=131072,
    )  # fmt: skip
    experts = config.whole("num_local_experts", 16)
    inner = config.count("intermediate_size", traits.ffn)
    dense_ffn = config.count("intermediate_size_mlp", 16384)
    spec = _moe(
        config,
        traits,
        ffn=dense_ffn,
        experts=experts,
        experts_per_token=config.whole("num_experts_per_tok", 1),
        expert_ffn=inner,
        shared_experts=1,
    )
    assert spec.hidden
    assert spec.layers is not None
    listed = config.values.get("moe_layers")
    step = config.count("interleave_moe_layer_step", 1)
    sparse = len(listed) if isinstance(listed, list) else len(range(step - 1, spec.layers, step))
    expert = 3 * spec.hidden * inner
    routed = experts * expert + spec.hidden * experts + expert
    around = attention(config, traits) + 2 * spec.hidden
    return assemble(config, spec, around, 3 * spec.hidden * dense_ffn, routed, expert, spec.layers - sparse)


BUILDERS: dict[str, Builder] = {
    "mixtral": mixtral,
    "phimoe": phimoe,
    "minimax_m2": minimax_m2,
    "glm4_moe": glm4_moe,
    "granitemoe": granite_moe,
    "olmoe": olmoe,
    "qwen2_moe": qwen2_moe,
    "qwen3_moe": qwen3_moe,
    "gpt_oss": gpt_oss,
    "deepseek_v2": deepseek_v2,
    "deepseek_v3": deepseek_v3,
    "llama4_text": llama4_text,
}
