"""Attention in one kernel: what CUDA's own flash kernel keeps is the same."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F


def flash_attn_func(
    q: Any, k: Any, v: Any, dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False, **_: Any
) -> Any:
    """Attend: (batch, length, heads, size) each."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    grouped = q.shape[1] != k.shape[1]
    out = F.scaled_dot_product_attention(q, k, v, None, dropout_p, causal, scale=softmax_scale, enable_gqa=grouped)
    return out.transpose(1, 2)


def flash_attn_qkvpacked_func(qkv: Any, *args: Any, **kwargs: Any) -> Any:
    """Attend: (batch, length, 3, heads, size)."""
    return flash_attn_func(*qkv.unbind(2), *args, **kwargs)


def flash_attn_kvpacked_func(q: Any, kv: Any, *args: Any, **kwargs: Any) -> Any:
    """Attend: keys and values (batch, length, 2, heads, size)."""
    return flash_attn_func(q, *kv.unbind(2), *args, **kwargs)
