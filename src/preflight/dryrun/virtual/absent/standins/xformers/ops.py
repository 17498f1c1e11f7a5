"""Attention in one kernel."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F


class LowerTriangularMask:
    """Each position sees those before it."""


def memory_efficient_attention(
    query: Any, key: Any, value: Any, attn_bias: Any = None, p: float = 0.0, scale: float | None = None, **_: Any
) -> Any:
    """Attend: (batch, length, heads, size) each, or (batch x heads, length, size)."""
    flat = query.dim() == 3
    q, k, v = ((x.unsqueeze(1) if flat else x.transpose(1, 2)) for x in (query, key, value))
    causal = isinstance(attn_bias, LowerTriangularMask)
    out = F.scaled_dot_product_attention(q, k, v, None if causal else attn_bias, p, causal, scale=scale)
    return out.squeeze(1) if flat else out.transpose(1, 2)
