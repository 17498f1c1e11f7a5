"""State-space decoders: Mamba, Falcon Mamba, Mamba 2.

A block is a norm and a mixer: a projection in, a short convolution along the sequence, a recurrence with a state of its
own for each channel (Mamba) or head (Mamba 2), a projection out. There is no attention and no feed-forward layer.
Source: Gu and Dao 2023 (section 3.4); Dao and Gu 2024 (section 7).
"""

from __future__ import annotations

import math

from preflight.catalog.families.counted import Builder, Config, Counted, linear
from preflight.catalog.families.rotary import causal_heads
from preflight.vocabulary.model import ModelSpec

REASON = "what a state-space block keeps for its backward pass depends on the kernels that it finds"


def inner_width(config: Config, hidden: int) -> int:
    """Return the width inside a mixer."""
    return int(config.ratio("expand", 2) * hidden)


def _decoder(config: Config, hidden: int, vocab: int, layers: int, block: int, tied: bool) -> Counted:
    spec = ModelSpec(
        family="other",
        layers=config.whole("num_hidden_layers", layers),
        hidden=hidden,
        vocab=vocab,
        activation=config.word("hidden_act", "silu"),
        norm="rmsnorm",
        bias=config.flag("use_bias", False),
        tied_embeddings=config.flag("tie_word_embeddings", tied),
        learned_positions=False,
        activation_reason=REASON,
    )
    assert spec.layers is not None
    base = vocab * hidden + spec.layers * block + hidden
    heads = causal_heads(config, hidden, vocab, bool(spec.tied_embeddings))
    return Counted(
        spec=spec,
        base=base,
        heads={name: heads[name] for name in ("none", "causal-lm")},
        default_head="causal-lm",
        block=block,
    )


def mamba(config: Config) -> Counted:
    """Count Mamba and Falcon Mamba: a state for each channel, whose step is projected through a low rank."""
    hidden, state = config.count("hidden_size", 768), config.count("state_size", 16)
    inner, kernel = config.count("intermediate_size", inner_width(config, hidden)), config.count("conv_kernel", 4)
    given = config.values.get("time_step_rank", "auto")
    rank = math.ceil(hidden / 16) if given == "auto" else config.count("time_step_rank", 1)
    bias = config.flag("use_bias", False)
    mixer = linear(hidden, 2 * inner, bias) + inner * kernel + (inner if config.flag("use_conv_bias", True) else 0)
    mixer += inner * (rank + 2 * state) + linear(rank, inner) + inner * state + inner
    mixer += linear(inner, hidden, bias)
    return _decoder(config, hidden, config.count("vocab_size", 50280), 32, mixer + hidden, tied=True)


def mamba2(config: Config) -> Counted:
    """Count Mamba 2: a state for each head, a norm inside the mixer, one projection for all inputs."""
    hidden, state = config.count("hidden_size", 4096), config.count("state_size", 128)
    heads, groups = config.count("num_heads", 128), config.count("n_groups", 8)
    inner, kernel = inner_width(config, hidden), config.count("conv_kernel", 4)
    convolved = inner + 2 * groups * state
    bias = config.flag("use_bias", False)
    mixer = linear(hidden, inner + convolved + heads, bias)
    mixer += convolved * kernel + (convolved if config.flag("use_conv_bias", True) else 0)
    mixer += 3 * heads + inner + linear(inner, hidden, bias)
    return _decoder(config, hidden, config.count("vocab_size", 32768), 64, mixer + hidden, tied=False)


BUILDERS: dict[str, Builder] = {"mamba": mamba, "falcon_mamba": mamba, "mamba2": mamba2}
