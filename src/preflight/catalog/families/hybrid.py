"""Decoders that mix attention with linear recurrences: Qwen 3 Next.

Most layers are gated delta nets, every fourth is attention with a gate on its output; all may have routed experts.
Source: Yang, Kautz, Hatamizadeh 2024 (gated delta networks), and the configuration class of transformers.
"""

from __future__ import annotations

import msgspec

from preflight.catalog.families.counted import Builder, Config, Counted, linear
from preflight.catalog.families.experts import qwen_moe
from preflight.catalog.families.rotary import Traits, attention, widths

_QWEN3_NEXT = Traits(
    vocab=151936, hidden=2048, ffn=5632, layers=48, heads=16, kv_heads=2, head_dim=256,
    attention_bias_key="attention_bias", head_norms="head", positions=32768,
)  # fmt: skip
REASON = "most layers are gated delta nets, and what these keep for their backward pass depends on the kernels"


def delta_net(config: Config, hidden: int) -> int:
    """Return the parameters of one gated delta net."""
    keys = config.count("linear_num_key_heads", 16) * config.count("linear_key_head_dim", 128)
    value_heads, value_width = config.count("linear_num_value_heads", 32), config.count("linear_value_head_dim", 128)
    values = value_heads * value_width
    total = (2 * keys + values) * config.count("linear_conv_kernel_dim", 4)  # along the sequence, no bias
    total += hidden * (2 * keys + 2 * values)  # queries, keys, values, and the gate of the output
    total += hidden * 2 * value_heads + 2 * value_heads  # how much is written and forgotten, with two vectors
    return total + value_width + values * hidden


def full_attention_layers(config: Config, layers: int) -> int:
    """Return how many layers are attention: those listed so, else every fourth."""
    listed = config.values.get("layer_types")
    if isinstance(listed, list):
        return sum(1 for kind in listed[:layers] if kind == "full_attention")
    return layers // config.count("full_attention_interval", 4)


def qwen3_next(config: Config) -> Counted:
    """Count Qwen 3 Next: Qwen's experts over two kinds of layers."""
    routed = qwen_moe(config, _QWEN3_NEXT, 512, 512, 10, shared=True, shared_ffn=512)
    hidden, heads, _, head_dim = widths(config, _QWEN3_NEXT)
    layers = routed.spec.layers or 0
    full = full_attention_layers(config, layers)
    usual = attention(config, _QWEN3_NEXT)
    # The projection of the queries makes their gate as well.
    gated = usual + linear(hidden, heads * head_dim, config.flag("attention_bias", False))
    linear_layer = delta_net(config, hidden)
    base = routed.base - layers * usual + full * gated + (layers - full) * linear_layer
    spec = msgspec.structs.replace(routed.spec, family="other", activation_reason=REASON)
    block = routed.block - usual + max(gated if full else 0, linear_layer if full < layers else 0)
    return msgspec.structs.replace(routed, spec=spec, base=base, block=block)


BUILDERS: dict[str, Builder] = {"qwen3_next": qwen3_next}
