"""Multi-head latent attention (DeepSeek-AI 2024): queries, keys and values through low ranks.

Letters: H hidden, n heads, d width of a head (with its rotary part r), v width of a value head,
R rank of queries (0: straight), K rank of keys and values.
"""

from __future__ import annotations

from preflight.vocabulary.model import ModelSpec


def is_latent(model: ModelSpec) -> bool:
    """Return whether keys and values go through a low rank."""
    return bool(model.kv_lora_rank and model.head_dim and model.heads)


def latent_widths(model: ModelSpec) -> tuple[float, float, float]:
    """Return the widths of queries (and of keys, which equal them), of values, and of what is compressed: R + K."""
    heads, width = float(model.heads or 0), float(model.head_dim or 0)
    value = float(model.value_head_dim or width - (model.rope_head_dim or 0))
    return heads * width, heads * value, float(model.q_lora_rank or 0) + float(model.kv_lora_rank or 0)


def latent_parameters(model: ModelSpec) -> float:
    """Return H R + R + R n d (or H n d) for queries, H (K + r) + K + K n (d - r + v) for the rest, n v H behind."""
    hidden, heads = float(model.hidden or 0), float(model.heads or 0)
    rotary, rank, low = float(model.rope_head_dim or 0), float(model.kv_lora_rank or 0), float(model.q_lora_rank or 0)
    queries, values, _ = latent_widths(model)
    asked = hidden * low + low + low * queries if low else hidden * queries
    kept = hidden * (rank + rotary) + rank + rank * (queries - heads * rotary + values)
    return asked + kept + values * hidden
