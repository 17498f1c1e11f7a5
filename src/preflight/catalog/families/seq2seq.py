"""Encoder-decoders: T5, mT5, BART, mBART, Pegasus, Whisper."""

from __future__ import annotations

from typing import Any

from preflight.catalog.families.counted import Builder, Config, Counted, linear
from preflight.vocabulary.model import ModelSpec


def t5(config: Config) -> Counted:
    """Count T5: no biases, RMS norms, one table of relative positions for each side, cross attention in the decoder.

    Version 1.1 and mT5 gate the feed-forward layer and do not tie the output matrix.
    """
    hidden, inner_dim = config.count("d_model", 512), config.count("d_kv", 64)
    heads, ffn = config.count("num_heads", 8), config.count("d_ff", 2048)
    layers = config.whole("num_layers", 6 if config.word("model_type", "t5") == "t5" else 8)
    decoder_layers = config.whole("num_decoder_layers", layers)
    act = config.word("feed_forward_proj", "relu")
    gated, tied = act.startswith("gated"), config.flag("tie_word_embeddings", True)
    vocab = config.count("vocab_size", 32128)
    attention = 4 * hidden * heads * inner_dim
    feed_forward = (3 if gated else 2) * hidden * ffn
    encoder, decoder = attention + feed_forward + 2 * hidden, 2 * attention + feed_forward + 3 * hidden
    relative = config.count("relative_attention_num_buckets", 32) * heads
    spec = ModelSpec(
        family="encoder_decoder",
        encoder_parameters=vocab * hidden + layers * encoder + hidden + (relative if layers else 0),
        layers=layers,
        decoder_layers=decoder_layers,
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=inner_dim,
        ffn=ffn,
        gated=gated,
        activation=act.removeprefix("gated-"),
        norm="rmsnorm",
        bias=False,
        vocab=vocab,
        tied_embeddings=tied,
        learned_positions=False,
        dropout=config.ratio("dropout_rate", 0.1),
    )
    sides = (1 if layers else 0) + (1 if decoder_layers else 0)
    base = vocab * hidden + layers * encoder + decoder_layers * decoder + 2 * hidden + sides * relative
    lm_head = {"none": 0, "seq2seq-lm": 0 if tied else vocab * hidden}
    return Counted(spec=spec, base=base, heads=lm_head, default_head="seq2seq-lm", block=decoder)


def mt5(config: Config) -> Counted:
    """Count mT5: T5 1.1 with a larger vocabulary."""
    defaults = {
        "vocab_size": 250112, "d_ff": 1024, "num_layers": 8, "num_heads": 6, "feed_forward_proj": "gated-gelu",
    }  # fmt: skip
    present = {key: value for key, value in config.values.items() if value is not None}
    return t5(Config({"tie_word_embeddings": True} | defaults | present))


def _sides(config: Config, width: int, layers: int, heads: int, ffn: int) -> dict[str, int]:
    """Return the sizes that BART's kin name for both sides."""
    return {
        "hidden": config.count("d_model", width),
        "layers": config.whole("encoder_layers", layers),
        "heads": config.count("encoder_attention_heads", heads),
        "ffn": config.count("encoder_ffn_dim", ffn),
        "decoder_layers": config.whole("decoder_layers", layers),
        "decoder_heads": config.count("decoder_attention_heads", heads),
        "decoder_ffn": config.count("decoder_ffn_dim", ffn),
    }


def _blocks(hidden: int, ffn: int, decoder_ffn: int, key_bias: bool = True) -> tuple[int, int]:
    """Return an encoder block (two norms) and a decoder block with cross attention (three norms)."""
    attention = 4 * linear(hidden, hidden) - (0 if key_bias else hidden)
    encoder = attention + linear(hidden, ffn) + linear(ffn, hidden) + 4 * hidden
    decoder = 2 * attention + linear(hidden, decoder_ffn) + linear(decoder_ffn, hidden) + 6 * hidden
    return encoder, decoder


def _spec(config: Config, sizes: dict[str, int], **more: Any) -> ModelSpec:
    fields: dict[str, Any] = {
        "family": "encoder_decoder",
        "kv_heads": sizes["heads"],
        "head_dim": sizes["hidden"] // sizes["heads"],
        "activation": config.word("activation_function", "gelu"),
        "norm": "layernorm",
        "bias": True,
        "tied_embeddings": config.flag("tie_word_embeddings", True),
        "dropout": config.ratio("dropout", 0.1),
    }
    return ModelSpec(**(fields | sizes | more))


def bart_like(config: Config, spare_rows: int, embedding_norms: int, final_norms: int) -> Counted:
    """Count BART's kin: ``spare_rows`` more positions, a norm after each embedding or after each stack, or both."""
    sizes = _sides(config, 1024, 12, 16, 4096)
    hidden, vocab = sizes["hidden"], config.count("vocab_size", 50265)
    positions = config.count("max_position_embeddings", 1024)
    encoder, decoder = _blocks(hidden, sizes["ffn"], sizes["decoder_ffn"])
    # Each side has half of the norms, a table of positions, and the embedding: the shared one, or its own.
    own = (vocab + positions + spare_rows) * hidden + (embedding_norms + final_norms) * hidden
    spec = _spec(
        config,
        sizes,
        vocab=vocab,
        max_positions=positions,
        learned_positions=spare_rows > 0,
        encoder_parameters=own + sizes["layers"] * encoder,
    )
    # Untied, each side has an embedding of its own beside the shared one, which stays in the class.
    base = vocab * hidden * (1 if spec.tied_embeddings else 3) + 2 * (positions + spare_rows) * hidden
    base += sizes["layers"] * encoder + sizes["decoder_layers"] * decoder
    base += (embedding_norms + final_norms) * 2 * hidden
    labels = config.labels(3 if config.word("model_type", "bart") == "bart" else 2)
    heads = {
        "none": 0,
        "seq2seq-lm": 0 if spec.tied_embeddings else vocab * hidden,
        "sequence-classification": linear(hidden, hidden) + linear(hidden, labels),
    }
    return Counted(spec=spec, base=base, heads=heads, default_head="seq2seq-lm", block=decoder)


def bart(config: Config) -> Counted:
    """Count BART: norms after the embeddings."""
    return bart_like(config, spare_rows=2, embedding_norms=2, final_norms=0)


def mbart(config: Config) -> Counted:
    """Count mBART: norms after the embeddings and after the stacks."""
    return bart_like(config, spare_rows=2, embedding_norms=2, final_norms=2)


def pegasus(config: Config) -> Counted:
    """Count Pegasus: fixed sinusoids (held as parameters that are not trained), norms after the stacks."""
    return bart_like(config, spare_rows=0, embedding_norms=0, final_norms=2)


def whisper(config: Config) -> Counted:
    """Count Whisper: two convolutions over mel frames, no bias on keys; encoder positions are frozen sinusoids."""
    sizes = _sides(config, 384, 4, 6, 1536)
    hidden, vocab = sizes["hidden"], config.count("vocab_size", 51865)
    mels = config.count("num_mel_bins", 80)
    source, target = config.count("max_source_positions", 1500), config.count("max_target_positions", 448)
    encoder, decoder = _blocks(hidden, sizes["ffn"], sizes["decoder_ffn"], key_bias=False)
    convolutions = linear(3 * mels, hidden) + linear(3 * hidden, hidden)
    spec = _spec(
        config,
        sizes,
        vocab=vocab,
        encoder_parameters=convolutions + source * hidden + 2 * hidden + sizes["layers"] * encoder,
        max_positions=target,
        source_positions=source,
        learned_positions=True,
        channels=mels,
        dropout=config.ratio("dropout", 0.0),
    )
    base = convolutions + (source + target + vocab) * hidden + 4 * hidden
    base += sizes["layers"] * encoder + sizes["decoder_layers"] * decoder
    heads = {"none": 0, "seq2seq-lm": 0 if spec.tied_embeddings else vocab * hidden}
    return Counted(spec=spec, base=base, heads=heads, default_head="seq2seq-lm", block=decoder)


BUILDERS: dict[str, Builder] = {
    "t5": t5,
    "mt5": mt5,
    "bart": bart,
    "mbart": mbart,
    "pegasus": pegasus,
    "whisper": whisper,
}
