"""Dense decoders before and beside Llama: GPT-2, GPT-Neo, GPT-J, GPT-NeoX, OPT, BLOOM, Falcon, Phi.

All use layer norms with weight and bias (2 x hidden) and a feed-forward layer of two matrices.
"""

from __future__ import annotations

from typing import Any

from preflight.catalog.families.counted import Builder, Config, Counted, linear, split
from preflight.catalog.families.rotary import causal_heads
from preflight.vocabulary.model import ModelSpec


def _spec(config: Config, **fields: Any) -> ModelSpec:
    base: dict[str, Any] = {
        "family": "transformer_decoder",
        "norm": "layernorm",
        "gated": False,
        "bias": True,
        "learned_positions": False,
        "norms_per_block": 2,
    }
    hidden, heads = fields["hidden"], fields["heads"]
    base["head_dim"] = split(hidden, heads, "hidden size")
    base["kv_heads"] = heads
    return ModelSpec(**(base | fields))


def _total(config: Config, spec: ModelSpec, block: int, outside: int, lm_head: int | None = None) -> Counted:
    """Add up embedding, blocks and what is ``outside`` of them; ``lm_head`` replaces the plain output matrix."""
    assert spec.hidden
    assert spec.vocab
    assert spec.layers is not None
    heads = causal_heads(config, spec.hidden, spec.vocab, bool(spec.tied_embeddings))
    if lm_head is not None:
        heads["causal-lm"] = lm_head
    base = spec.vocab * (spec.embedding_dim or spec.hidden) + spec.layers * block + outside
    return Counted(spec=spec, base=base, heads=heads, default_head="causal-lm", block=block)


def gpt2(config: Config) -> Counted:
    """Count GPT-2: learned positions, biases everywhere, output matrix tied."""
    hidden, positions = config.count("n_embd", 768), config.count("n_positions", 1024)
    ffn = config.count("n_inner", 4 * hidden)
    spec = _spec(
        config,
        fused_qkv=True,
        layers=config.whole("n_layer", 12),
        hidden=hidden,
        heads=config.count("n_head", 12),
        ffn=ffn,
        activation=config.word("activation_function", "gelu_new"),
        vocab=config.count("vocab_size", 50257),
        max_positions=positions,
        learned_positions=True,
        tied_embeddings=config.flag("tie_word_embeddings", True),
        dropout=config.ratio("resid_pdrop", 0.1),
    )
    block = linear(hidden, 3 * hidden) + linear(hidden, hidden) + linear(hidden, ffn) + linear(ffn, hidden) + 4 * hidden
    return _total(config, spec, block, positions * hidden + 2 * hidden)


def gpt_neo(config: Config) -> Counted:
    """Count GPT-Neo: no bias on queries, keys and values."""
    hidden, positions = config.count("hidden_size", 2048), config.count("max_position_embeddings", 2048)
    ffn = config.count("intermediate_size", 4 * hidden)
    spec = _spec(
        config,
        qkv_bias=False,
        layers=config.whole("num_layers", 24),
        hidden=hidden,
        heads=config.count("num_heads", 16),
        ffn=ffn,
        activation=config.word("activation_function", "gelu_new"),
        vocab=config.count("vocab_size", 50257),
        max_positions=positions,
        learned_positions=True,
        tied_embeddings=config.flag("tie_word_embeddings", True),
        dropout=config.ratio("resid_dropout", 0.0),
    )
    block = 3 * hidden * hidden + linear(hidden, hidden) + linear(hidden, ffn) + linear(ffn, hidden) + 4 * hidden
    return _total(config, spec, block, positions * hidden + 2 * hidden)


def gptj(config: Config) -> Counted:
    """Count GPT-J: one norm for attention and feed-forward, output matrix with a bias."""
    hidden = config.count("n_embd", 4096)
    ffn = config.count("n_inner", 4 * hidden)
    vocab = config.count("vocab_size", 50400)
    tied = config.flag("tie_word_embeddings", False)
    spec = _spec(
        config,
        qkv_bias=False,
        norms_per_block=1,
        layers=config.whole("n_layer", 28),
        hidden=hidden,
        heads=config.count("n_head", 16),
        ffn=ffn,
        activation=config.word("activation_function", "gelu_new"),
        vocab=vocab,
        max_positions=config.whole("n_positions", 2048),
        tied_embeddings=tied,
        dropout=config.ratio("resid_pdrop", 0.0),
    )
    block = 4 * hidden * hidden + linear(hidden, ffn) + linear(ffn, hidden) + 2 * hidden
    counted = _total(config, spec, block, 2 * hidden, lm_head=vocab + (0 if tied else hidden * vocab))
    counted.heads["question-answering"] = linear(hidden, config.labels())
    return counted


def gpt_neox(config: Config) -> Counted:
    """Count GPT-NeoX and Pythia: two norms a block, rotary positions, output matrix of its own."""
    hidden = config.count("hidden_size", 6144)
    ffn = config.count("intermediate_size", 24576)
    bias = config.flag("attention_bias", True)
    spec = _spec(
        config,
        fused_qkv=True,
        qkv_bias=bias,
        layers=config.whole("num_hidden_layers", 44),
        hidden=hidden,
        heads=config.count("num_attention_heads", 64),
        ffn=ffn,
        activation=config.word("hidden_act", "gelu"),
        vocab=config.count("vocab_size", 50432),
        max_positions=config.whole("max_position_embeddings", 2048),
        tied_embeddings=config.flag("tie_word_embeddings", False),
        dropout=config.ratio("hidden_dropout", 0.0),
    )
    block = linear(hidden, 3 * hidden, bias) + linear(hidden, hidden, bias)
    block += linear(hidden, ffn) + linear(ffn, hidden) + 4 * hidden
    return _total(config, spec, block, 2 * hidden)


def opt(config: Config) -> Counted:
    """Count OPT: position table with two spare rows; OPT-350m projects a narrower embedding and norms afterwards."""
    hidden, ffn = config.count("hidden_size", 768), config.count("ffn_dim", 3072)
    narrow = config.count("word_embed_proj_dim", hidden)
    positions = config.count("max_position_embeddings", 2048)
    bias, affine = config.flag("enable_bias", True), config.flag("layer_norm_elementwise_affine", True)
    vocab, tied = config.count("vocab_size", 50272), config.flag("tie_word_embeddings", True)
    spec = _spec(
        config,
        layers=config.whole("num_hidden_layers", 12),
        hidden=hidden,
        heads=config.count("num_attention_heads", 12),
        ffn=ffn,
        activation=config.word("activation_function", "relu"),
        bias=bias,
        vocab=vocab,
        embedding_dim=narrow if narrow != hidden else None,
        max_positions=positions,
        learned_positions=True,
        tied_embeddings=tied,
        dropout=config.ratio("dropout", 0.1),
    )
    norm = 2 * hidden if affine else 0
    block = 4 * linear(hidden, hidden, bias) + linear(hidden, ffn, bias) + linear(ffn, hidden, bias) + 2 * norm
    outside = (positions + 2) * hidden
    if narrow != hidden:
        outside += 2 * narrow * hidden
    if config.flag("do_layer_norm_before", True) and not config.flag("_remove_final_layer_norm", False):
        outside += norm
    counted = _total(config, spec, block, outside, lm_head=0 if tied else narrow * vocab)
    counted.heads["sequence-classification"] = narrow * config.labels()
    counted.heads["question-answering"] = linear(narrow, 2)
    return counted


def bloom(config: Config) -> Counted:
    """Count BLOOM: a norm after the embedding, no positions (ALiBi)."""
    hidden = config.count("hidden_size", config.count("n_embed", 64))
    spec = _spec(
        config,
        fused_qkv=True,
        layers=config.whole("n_layer", config.whole("num_hidden_layers", 2)),
        hidden=hidden,
        heads=config.count("n_head", config.count("num_attention_heads", 8)),
        ffn=4 * hidden,
        activation="gelu",
        vocab=config.count("vocab_size", 250880),
        tied_embeddings=config.flag("tie_word_embeddings", True),
        dropout=config.ratio("hidden_dropout", 0.0),
    )
    block = linear(hidden, 3 * hidden) + linear(hidden, hidden)
    block += linear(hidden, 4 * hidden) + linear(4 * hidden, hidden) + 4 * hidden
    return _total(config, spec, block, 4 * hidden)


def falcon(config: Config) -> Counted:
    """Count Falcon: one head of keys and values (7B) or one for each group (40B, the new decoder)."""
    hidden = config.count("hidden_size", 4544)
    heads = config.count("num_attention_heads", 71)
    ffn = config.count("ffn_hidden_size", 4 * hidden)
    grouped = config.flag("new_decoder_architecture", False)
    kv_heads = heads
    if grouped:
        kv_heads = config.count("num_kv_heads", heads)
    elif config.flag("multi_query", True):
        kv_heads = 1
    bias = config.flag("bias", False)
    norms = config.whole("num_ln_in_parallel_attn", 2) if grouped else 1
    if not config.flag("parallel_attn", True):
        norms = 2
    spec = _spec(
        config,
        fused_qkv=True,
        norms_per_block=norms,
        layers=config.whole("num_hidden_layers", 32),
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        ffn=ffn,
        activation=config.word("activation", "gelu"),
        bias=bias,
        vocab=config.count("vocab_size", 65024),
        max_positions=config.whole("max_position_embeddings", 2048),
        tied_embeddings=config.flag("tie_word_embeddings", True),
        dropout=config.ratio("hidden_dropout", 0.0),
    )
    block = linear(hidden, (heads + 2 * kv_heads) * (hidden // heads), bias) + linear(hidden, hidden, bias)
    block += linear(hidden, ffn, bias) + linear(ffn, hidden, bias) + norms * 2 * hidden
    return _total(config, spec, block, 2 * hidden)


def phi(config: Config) -> Counted:
    """Count Phi-1.5 and Phi-2: one norm a block, biases everywhere, the output matrix too."""
    hidden = config.count("hidden_size", 2048)
    heads = config.count("num_attention_heads", 32)
    ffn = config.count("intermediate_size", 8192)
    kv_heads = config.maybe("num_key_value_heads") or heads
    vocab, tied = config.count("vocab_size", 51200), config.flag("tie_word_embeddings", False)
    spec = _spec(
        config,
        norms_per_block=1,
        qk_norm=config.flag("qk_layernorm", False),
        layers=config.whole("num_hidden_layers", 24),
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        ffn=ffn,
        activation=config.word("hidden_act", "gelu_new"),
        vocab=vocab,
        max_positions=config.whole("max_position_embeddings", 2048),
        tied_embeddings=tied,
        dropout=config.ratio("resid_pdrop", 0.0),
    )
    head_dim = hidden // heads
    block = linear(hidden, (heads + 2 * kv_heads) * head_dim) + linear(heads * head_dim, hidden)
    block += linear(hidden, ffn) + linear(ffn, hidden) + 2 * hidden
    if config.flag("qk_layernorm", False):
        block += 4 * head_dim
    return _total(config, spec, block, 2 * hidden, lm_head=vocab + (0 if tied else hidden * vocab))


BUILDERS: dict[str, Builder] = {
    "gpt2": gpt2,
    "gpt_neo": gpt_neo,
    "gptj": gptj,
    "gpt_neox": gpt_neox,
    "opt": opt,
    "bloom": bloom,
    "falcon": falcon,
    "phi": phi,
}
