"""Functions that draw random numbers, and which of them are dropout."""

from __future__ import annotations

from typing import Any

DROPOUT = frozenset(
    "dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout feature_dropout dropout_ "
    "scaled_dot_product_attention multi_head_attention_forward".split()
)
RANDOM = frozenset(
    "rand randn randint rand_like randn_like randint_like normal bernoulli multinomial poisson normal_ uniform_ "
    "bernoulli_ random_ exponential_ randperm rrelu gumbel_softmax".split()
)


def probability(name: str, args: Any, kwargs: Any) -> float | None:
    """Return how likely a function drops an element, None or 0 where it drops none."""
    if name == "scaled_dot_product_attention":
        return float(kwargs.get("dropout_p", args[4] if len(args) > 4 else 0.0))
    if name == "multi_head_attention_forward":
        names = (
            "query key value embed_dim_to_check num_heads in_proj_weight in_proj_bias bias_k bias_v add_zero_attn "
            "dropout_p out_proj_weight out_proj_bias training".split()
        )
        given = dict(zip(names, args, strict=False)) | kwargs
        return float(given.get("dropout_p", 0.0)) if given.get("training", True) else None
    p = kwargs.get("p", args[1] if len(args) > 1 else 0.5)
    training = kwargs.get("training", kwargs.get("train", args[2] if len(args) > 2 else True))
    return float(p) if training else None
