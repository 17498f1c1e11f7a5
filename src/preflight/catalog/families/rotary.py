"""Dense decoders with rotary positions and a gated feed-forward layer: Llama and its kin.

One block: queries, keys, values and output of ``heads`` and ``kv_heads`` heads of ``head_dim``,
three feed-forward matrices (gate, up, down), and norms.
"""

from __future__ import annotations

from typing import Any

import msgspec

from preflight.catalog.families.counted import Builder, Config, Counted, linear
from preflight.vocabulary.model import ModelSpec


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """In what one ``model_type`` differs from the next, with the library's defaults for absent keys."""

    vocab: int = 32000
    hidden: int = 4096
    ffn: int = 11008
    layers: int = 32
    heads: int = 32
    kv_heads: int | None = None
    head_dim: int | None = None
    tied: bool = False
    norms: int = 2
    norm: str = "rmsnorm"
    norm_vectors: int = 1
    final_norm: bool = True
    query_bias: bool = False
    output_bias: bool = False
    qkv_bias_key: str | None = None
    bias_default: bool = False
    attention_bias_key: str | None = None
    mlp_bias_key: str | None = None
    head_norms: str | None = None
    head_norms_key: str | None = None
    activation: str = "silu"
    positions: int = 2048
    window: bool = False
    fused: bool = False
    gated: bool = True
    output_bias_key: str | None = None
    parallel: bool = False
    block_extra: int = 0


LLAMA = Traits(attention_bias_key="attention_bias", mlp_bias_key="mlp_bias")
GEMMA = Traits(
    vocab=256000, hidden=3072, ffn=24576, layers=28, heads=16, kv_heads=16, head_dim=256, tied=True,
    attention_bias_key="attention_bias", activation="gelu_pytorch_tanh", positions=8192,
)  # fmt: skip
COHERE = Traits(
    vocab=256000, hidden=8192, ffn=22528, layers=40, heads=64, tied=True, norm="layernorm", norms=1, parallel=True,
    attention_bias_key="attention_bias", head_norms_key="use_qk_norm", positions=8192,
)  # fmt: skip
GLM = Traits(
    vocab=151552, ffn=13696, layers=40, kv_heads=2, head_dim=128, qkv_bias_key="attention_bias", bias_default=True,
    positions=131072,
)  # fmt: skip
TRAITS: dict[str, Traits] = {
    "llama": LLAMA,
    "mistral": Traits(ffn=14336, kv_heads=8, positions=131072, window=True),
    "qwen2": Traits(vocab=151936, ffn=22016, kv_heads=32, query_bias=True, positions=32768),
    "qwen3": Traits(
        vocab=151936, ffn=22016, kv_heads=32, head_dim=128, attention_bias_key="attention_bias",
        head_norms="head", positions=32768,
    ),
    "gemma": GEMMA,
    "gemma2": msgspec.structs.replace(
        GEMMA, hidden=2304, ffn=9216, layers=26, heads=8, kv_heads=4, norms=4, window=True
    ),
    "gemma3_text": msgspec.structs.replace(
        GEMMA, vocab=262208, hidden=2304, ffn=9216, layers=26, heads=8, kv_heads=4, norms=4,
        head_norms="head", positions=131072, window=True,
    ),
    "phi3": Traits(vocab=32064, hidden=3072, ffn=8192, positions=4096, window=True, fused=True),
    "olmo": Traits(vocab=50304, norm_vectors=0, norm="layernorm", attention_bias_key="attention_bias"),
    "olmo2": Traits(vocab=50304, attention_bias_key="attention_bias", head_norms="full"),
    "stablelm": Traits(
        vocab=50304, hidden=2560, ffn=6912, kv_heads=32, norm="layernorm", norm_vectors=2,
        qkv_bias_key="use_qkv_bias", head_norms_key="qk_layernorm", positions=4096,
    ),
    "smollm3": Traits(
        vocab=128256, hidden=2048, ffn=11008, layers=36, heads=16, kv_heads=4, tied=True,
        attention_bias_key="attention_bias", mlp_bias_key="mlp_bias", positions=32768,
    ),
    "starcoder2": Traits(
        vocab=49152, hidden=3072, ffn=12288, layers=30, heads=24, kv_heads=2, tied=True, norm="layernorm", norm_vectors=2,
        attention_bias_key="use_bias", mlp_bias_key="use_bias", bias_default=True, gated=False,
        activation="gelu_pytorch_tanh", positions=4096, window=True,
    ),
    "granite": LLAMA,
    "cohere": COHERE,
    "cohere2": msgspec.structs.replace(COHERE, head_dim=128, head_norms_key=None, window=True),
    "glm": GLM,
    "glm4": msgspec.structs.replace(GLM, norms=4),
    "exaone4": Traits(vocab=102400, ffn=16384, head_norms="head", window=True),
    "seed_oss": Traits(
        vocab=155136, ffn=27648, layers=64, heads=80, kv_heads=8, head_dim=128, qkv_bias_key="attention_bias",
        output_bias_key="attention_out_bias", mlp_bias_key="mlp_bias", bias_default=True, positions=524288,
    ),
    "arcee": Traits(
        hidden=2560, ffn=18432, attention_bias_key="attention_bias", mlp_bias_key="mlp_bias", gated=False,
        activation="relu2", positions=4096,
    ),
    "ernie4_5": Traits(
        vocab=103424, hidden=1024, ffn=3072, layers=18, heads=16, kv_heads=2, head_dim=128, tied=True,
        attention_bias_key="use_bias", mlp_bias_key="use_bias", positions=131072,
    ),
    "apertus": Traits(
        vocab=131072, ffn=14336, attention_bias_key="attention_bias", head_norms="head", gated=False, activation="xielu",
        block_extra=2, positions=65536,
    ),
}  # fmt: skip


def widths(config: Config, traits: Traits) -> tuple[int, int, int, int]:
    """Return hidden width, heads, heads of keys and values, and head width; null means "as many as heads"."""
    hidden = config.count("hidden_size", traits.hidden)
    heads = config.count("num_attention_heads", traits.heads)
    kv_heads = config.maybe("num_key_value_heads", traits.kv_heads) or heads
    head_dim = config.maybe("head_dim", traits.head_dim) or hidden // heads
    return hidden, heads, kv_heads, head_dim


def query_bias(config: Config, traits: Traits) -> bool:
    """Return whether queries, keys and values have a bias."""
    key = traits.qkv_bias_key or traits.attention_bias_key
    return traits.query_bias or config.flag(key or "", traits.bias_default)


def output_bias(config: Config, traits: Traits) -> bool:
    """Return whether the output of attention has a bias."""
    if traits.output_bias_key is not None:
        return config.flag(traits.output_bias_key, False)
    default = traits.bias_default and traits.attention_bias_key is not None
    return traits.output_bias or config.flag(traits.attention_bias_key or "", default)


def attention(config: Config, traits: Traits) -> int:
    """Return the parameters of one attention layer, norms on heads included."""
    hidden, heads, kv_heads, head_dim = widths(config, traits)
    total = linear(hidden, (heads + 2 * kv_heads) * head_dim, query_bias(config, traits))
    total += linear(heads * head_dim, hidden, output_bias(config, traits))
    if traits.head_norms == "head":
        total += 2 * head_dim
    elif traits.head_norms == "full":
        total += (heads + kv_heads) * head_dim
    if traits.head_norms_key and config.flag(traits.head_norms_key, False):
        total += (heads + kv_heads) * head_dim
    return total


def norm_count(config: Config, traits: Traits) -> int:
    """Return the norms of one block; StableLM's parallel blocks share one."""
    shared = traits.norm_vectors == 2 and config.flag("use_parallel_residual", False)
    return 1 if shared else traits.norms


def describe(config: Config, traits: Traits, **more: Any) -> ModelSpec:
    """Return the architecture in words of the vocabulary."""
    hidden, heads, kv_heads, head_dim = widths(config, traits)
    fields: dict[str, Any] = {
        "family": "transformer_decoder",
        "layers": config.whole("num_hidden_layers", traits.layers),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "ffn": config.count("intermediate_size", traits.ffn),
        "gated": traits.gated,
        "activation": config.word("hidden_act", config.word("hidden_activation", traits.activation)),
        "norm": traits.norm,
        "bias": output_bias(config, traits),
        "qkv_bias": query_bias(config, traits),
        "qk_norm": traits.head_norms is not None or config.flag(traits.head_norms_key or "", False),
        "fused_qkv": traits.fused,
        "norms_per_block": norm_count(config, traits),
        "vocab": config.count("vocab_size", traits.vocab),
        "max_positions": config.whole("max_position_embeddings", traits.positions),
        "tied_embeddings": config.flag("tie_word_embeddings", traits.tied),
        "learned_positions": False,
        "parallel_blocks": traits.parallel,
        "sliding_window": config.maybe("sliding_window") if traits.window else None,
        "dropout": config.ratio("attention_dropout", 0.0),
    }
    return ModelSpec(**(fields | more))


def causal_heads(config: Config, hidden: int, vocab: int, tied: bool) -> dict[str, int]:
    """Return what the heads of a decoder add: the output matrix unless tied, a scoring matrix without bias."""
    return {
        "none": 0,
        "causal-lm": 0 if tied else hidden * vocab,
        "sequence-classification": hidden * config.labels(),
        "token-classification": linear(hidden, config.labels()),
        "question-answering": linear(hidden, 2),
    }


def dense(config: Config, traits: Traits) -> Counted:
    """Count a dense decoder: embedding, blocks, final norm."""
    spec = describe(config, traits)
    assert spec.hidden
    assert spec.ffn
    assert spec.vocab
    assert spec.layers is not None
    # One key for all biases has one default; a key of the feed-forward layer alone is off by default.
    both = traits.bias_default and traits.mlp_bias_key == traits.attention_bias_key
    ffn_bias = config.flag(traits.mlp_bias_key, both) if traits.mlp_bias_key else False
    up = 2 if traits.gated else 1
    feed_forward = up * linear(spec.hidden, spec.ffn, ffn_bias) + linear(spec.ffn, spec.hidden, ffn_bias)
    block = attention(config, traits) + feed_forward + traits.block_extra
    block += norm_count(config, traits) * traits.norm_vectors * spec.hidden
    base = spec.vocab * spec.hidden + spec.layers * block + traits.norm_vectors * spec.hidden
    heads = causal_heads(config, spec.hidden, spec.vocab, bool(spec.tied_embeddings))
    return Counted(spec=spec, base=base, heads=heads, default_head="causal-lm", block=block)


def _builder(traits: Traits) -> Builder:
    return lambda config: dense(config, traits)


BUILDERS: dict[str, Builder] = {model_type: _builder(traits) for model_type, traits in TRAITS.items()}
