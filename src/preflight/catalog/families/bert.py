"""Encoders: BERT, RoBERTa, XLM-R, DistilBERT, ALBERT, ELECTRA, DeBERTa-v2 and v3, MPNet.

One block is four square matrices, two feed-forward matrices and two norms, all with biases.
The pooler (a square matrix) belongs to the base class of some of them and is dropped by most heads.
"""

from __future__ import annotations

from typing import Any

from preflight.catalog.families.counted import Builder, Config, Counted, linear, split
from preflight.vocabulary.model import ModelSpec


def _spec(config: Config, vocab: int, hidden: int, layers: int, heads: int, ffn: int, **more: Any) -> ModelSpec:
    fields: dict[str, Any] = {
        "family": "transformer_encoder",
        "layers": layers,
        "hidden": hidden,
        "heads": heads,
        "kv_heads": heads,
        "head_dim": split(hidden, heads, "hidden size"),
        "ffn": ffn,
        "activation": config.word("hidden_act", config.word("activation", "gelu")),
        "norm": "layernorm",
        "bias": True,
        "vocab": vocab,
        "max_positions": config.count("max_position_embeddings", 512),
        "learned_positions": True,
        "tied_embeddings": config.flag("tie_word_embeddings", True),
        "dropout": config.ratio("hidden_dropout_prob", config.ratio("dropout", 0.1)),
    }
    return ModelSpec(**(fields | more))


def _common(config: Config, vocab: int, hidden: int, layers: int, heads: int, ffn: int) -> tuple[int, ...]:
    """Return vocabulary, width, blocks, heads and feed-forward width as BERT's configuration names them."""
    return (
        config.count("vocab_size", vocab),
        config.count("hidden_size", hidden),
        config.whole("num_hidden_layers", layers),
        config.count("num_attention_heads", heads),
        config.count("intermediate_size", ffn),
    )


def block_of(hidden: int, ffn: int) -> int:
    """Return the parameters of one encoder block with biases and two norms."""
    return 4 * linear(hidden, hidden) + linear(hidden, ffn) + linear(ffn, hidden) + 4 * hidden


def _masked_lm(width: int, hidden: int, vocab: int, tied: bool, biases: int = 2) -> int:
    """Return transform, norm and output bias; untied, the output matrix too, in most classes with a bias of its own."""
    untied = width * vocab + (biases - 1) * vocab
    return linear(hidden, width) + 2 * width + vocab + (0 if tied else untied)


def bert(config: Config) -> Counted:
    """Count BERT: two segment embeddings, pooler in the base class."""
    sizes = _common(config, 30522, 768, 12, 12, 3072)
    vocab, hidden, layers, _, ffn = sizes
    spec = _spec(config, *sizes)
    rows = vocab + config.count("max_position_embeddings", 512) + config.whole("type_vocab_size", 2)
    pooler, labels, tied = linear(hidden, hidden), config.labels(), bool(spec.tied_embeddings)
    base = rows * hidden + 2 * hidden + layers * block_of(hidden, ffn) + pooler
    masked = _masked_lm(hidden, hidden, vocab, tied)
    heads = {
        "none": 0,
        "masked-lm": masked - pooler,
        "pre-training": masked + linear(hidden, 2),
        "sequence-classification": linear(hidden, labels),
        "multiple-choice": linear(hidden, 1),
        "token-classification": linear(hidden, labels) - pooler,
        "question-answering": linear(hidden, labels) - pooler,
    }
    return Counted(spec=spec, base=base, heads=heads, default_head="none", block=block_of(hidden, ffn))


def roberta(config: Config) -> Counted:
    """Count RoBERTa and XLM-R: the classification head has a square matrix of its own instead of the pooler."""
    # The defaults of XLM-R and CamemBERT are those of BERT: their published configurations name the vocabulary.
    default = 50265 if config.word("model_type", "roberta") == "roberta" else 30522
    sizes = _common(config, default, 768, 12, 12, 3072)
    vocab, hidden, layers, _, ffn = sizes
    spec = _spec(config, *sizes)
    rows = vocab + config.count("max_position_embeddings", 512) + config.whole("type_vocab_size", 2)
    pooler, labels, tied = linear(hidden, hidden), config.labels(), bool(spec.tied_embeddings)
    base = rows * hidden + 2 * hidden + layers * block_of(hidden, ffn) + pooler
    heads = {
        "none": 0,
        "masked-lm": _masked_lm(hidden, hidden, vocab, tied) - pooler,
        "sequence-classification": linear(hidden, hidden) + linear(hidden, labels) - pooler,
        "multiple-choice": linear(hidden, 1),
        "token-classification": linear(hidden, labels) - pooler,
        "question-answering": linear(hidden, labels) - pooler,
    }
    return Counted(spec=spec, base=base, heads=heads, default_head="none", block=block_of(hidden, ffn))


def distilbert(config: Config) -> Counted:
    """Count DistilBERT: no segments, no pooler in the base class."""
    vocab, hidden = config.count("vocab_size", 30522), config.count("dim", 768)
    layers, ffn = config.whole("n_layers", 6), config.count("hidden_dim", 4 * 768)
    spec = _spec(config, vocab, hidden, layers, config.count("n_heads", 12), ffn)
    labels, tied = config.labels(), bool(spec.tied_embeddings)
    rows = vocab + config.count("max_position_embeddings", 512)
    base = rows * hidden + 2 * hidden + layers * block_of(hidden, ffn)
    heads = {
        "none": 0,
        "masked-lm": _masked_lm(hidden, hidden, vocab, tied, biases=1),
        "sequence-classification": linear(hidden, hidden) + linear(hidden, labels),
        "multiple-choice": linear(hidden, hidden) + linear(hidden, 1),
        "token-classification": linear(hidden, labels),
        "question-answering": linear(hidden, labels),
    }
    return Counted(spec=spec, base=base, heads=heads, default_head="none", block=block_of(hidden, ffn))


def albert(config: Config) -> Counted:
    """Count ALBERT: narrow embedding, and one block (or few) used by every layer."""
    sizes = _common(config, 30000, 4096, 12, 64, 16384)
    vocab, hidden, _, _, ffn = sizes
    narrow, labels = config.count("embedding_size", 128), config.labels()
    spec = _spec(config, *sizes, embedding_dim=narrow, shared_layers=True)
    rows = vocab + config.count("max_position_embeddings", 512) + config.whole("type_vocab_size", 2)
    blocks = config.count("num_hidden_groups", 1) * config.count("inner_group_num", 1)
    pooler = linear(hidden, hidden)
    base = rows * narrow + 2 * narrow + linear(narrow, hidden) + blocks * block_of(hidden, ffn) + pooler
    masked = _masked_lm(narrow, hidden, vocab, bool(spec.tied_embeddings))
    heads = {
        "none": 0,
        "masked-lm": masked - pooler,
        "pre-training": masked + linear(hidden, labels),
        "sequence-classification": linear(hidden, labels),
        "multiple-choice": linear(hidden, 1),
        "token-classification": linear(hidden, labels) - pooler,
        "question-answering": linear(hidden, labels) - pooler,
    }
    return Counted(spec=spec, base=base, heads=heads, default_head="none", block=block_of(hidden, ffn))


def electra(config: Config) -> Counted:
    """Count ELECTRA: an embedding of its own width, a discriminator head in pre-training."""
    sizes = _common(config, 30522, 256, 12, 4, 1024)
    vocab, hidden, layers, _, ffn = sizes
    narrow, labels = config.count("embedding_size", 128), config.labels()
    spec = _spec(config, *sizes, embedding_dim=narrow if narrow != hidden else None)
    rows = vocab + config.count("max_position_embeddings", 512) + config.whole("type_vocab_size", 2)
    base = rows * narrow + 2 * narrow + layers * block_of(hidden, ffn)
    base += linear(narrow, hidden) if narrow != hidden else 0
    heads = {
        "none": 0,
        "masked-lm": _masked_lm(narrow, hidden, vocab, bool(spec.tied_embeddings), biases=1),
        "pre-training": linear(hidden, hidden) + linear(hidden, 1),
        "sequence-classification": linear(hidden, hidden) + linear(hidden, labels),
        "token-classification": linear(hidden, labels),
        "question-answering": linear(hidden, labels),
    }
    return Counted(spec=spec, base=base, heads=heads, default_head="none", block=block_of(hidden, ffn))


def deberta(config: Config) -> Counted:
    """Count DeBERTa-v2 and v3: relative positions shared by all blocks, with their own projections unless shared."""
    sizes = _common(config, 128100, 1536, 24, 24, 6144)
    vocab, hidden, layers, _, ffn = sizes
    positions = config.count("max_position_embeddings", 512)
    absolute = config.flag("position_biased_input", True)
    narrow = config.count("embedding_size", hidden)
    spec = _spec(config, *sizes, learned_positions=absolute, embedding_dim=narrow if narrow != hidden else None)
    rows = vocab + (positions if absolute else 0) + config.whole("type_vocab_size", 0)
    base = rows * narrow + 2 * hidden + (narrow * hidden if narrow != hidden else 0)
    block = block_of(hidden, ffn)
    if config.flag("relative_attention", False):
        block += _relative_projections(config, hidden)
        base += 2 * _relative_buckets(config, positions) * hidden
    base += 2 * hidden if "layer_norm" in config.word("norm_rel_ebd", "none").lower() else 0
    kernel = config.whole("conv_kernel_size", 0)
    if kernel:
        base += kernel * hidden * (hidden // config.count("conv_groups", 1)) + hidden + 2 * hidden
    base += layers * block
    labels, pooler = config.labels(), linear(hidden, hidden)
    heads = {
        "none": 0,
        "sequence-classification": pooler + linear(hidden, labels),
        "token-classification": linear(hidden, labels),
        "question-answering": linear(hidden, labels),
    }
    return Counted(spec=spec, base=base, heads=heads, default_head="none", block=block)


def _relative_projections(config: Config, hidden: int) -> int:
    """Return the projections of relative positions in one block: none when they share the attention's own."""
    if config.flag("share_att_key", False):
        return 0
    kinds = config.values.get("pos_att_type") or []
    names = kinds.lower().split("|") if isinstance(kinds, str) else [str(kind).lower() for kind in kinds]
    keys = linear(hidden, hidden) if "c2p" in names else 0
    return keys + (linear(hidden, hidden) if "p2c" in names else 0)


def _relative_buckets(config: Config, positions: int) -> int:
    """Return half the rows of the relative position table."""
    raw = config.values.get("max_relative_positions", -1)
    furthest = raw if isinstance(raw, int) and raw >= 1 else positions
    buckets = config.values.get("position_buckets", -1)
    return buckets if isinstance(buckets, int) and buckets > 0 else furthest


def mpnet(config: Config) -> Counted:
    """Count MPNet: no segments, one table of relative positions for all blocks."""
    sizes = _common(config, 30527, 768, 12, 12, 3072)
    vocab, hidden, layers, attention_heads, ffn = sizes
    spec = _spec(config, *sizes)
    rows = vocab + config.count("max_position_embeddings", 512)
    relative = config.count("relative_attention_num_buckets", 32) * attention_heads
    pooler, labels = linear(hidden, hidden), config.labels()
    base = rows * hidden + 2 * hidden + relative + layers * block_of(hidden, ffn) + pooler
    heads = {
        "none": 0,
        "masked-lm": _masked_lm(hidden, hidden, vocab, bool(spec.tied_embeddings)) - pooler,
        "sequence-classification": linear(hidden, hidden) + linear(hidden, labels) - pooler,
        "multiple-choice": linear(hidden, 1),
        "token-classification": linear(hidden, labels) - pooler,
        "question-answering": linear(hidden, labels) - pooler,
    }
    return Counted(spec=spec, base=base, heads=heads, default_head="none", block=block_of(hidden, ffn))


BUILDERS: dict[str, Builder] = {
    "bert": bert,
    "roberta": roberta,
    "camembert": roberta,
    "xlm-roberta": roberta,
    "distilbert": distilbert,
    "albert": albert,
    "electra": electra,
    "deberta-v2": deberta,
    "mpnet": mpnet,
}
