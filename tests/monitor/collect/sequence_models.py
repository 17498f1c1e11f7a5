"""Small language models, their losses, and what is told of the first table of one."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from preflight.monitor.collect.sequences import NAMES, Sequences

VOCAB, LENGTH, DIM = 64, 12, 16


def numbers(loss: Any) -> dict[str, float]:
    """What is told of the first table of the loss."""
    found = Sequences(torch).of("here", loss)
    assert found is not None
    values = found.values()
    assert values is not None
    return dict(zip(NAMES, values[0], strict=True))


class Model(nn.Module):
    """One attention, of the kind that is asked for, over tokens."""

    def __init__(self, kind: str, padding: int | None = None) -> None:
        super().__init__()
        self.kind = kind
        self.embed = nn.Embedding(VOCAB, DIM, padding_idx=padding)
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.head = nn.Linear(DIM, VOCAB)

    def forward(self, ids: Any, mask: Any = None) -> Any:
        hidden = self.embed(ids)
        parts = self.qkv(hidden).view(*ids.shape, 3, 2, -1).permute(2, 0, 3, 1, 4)
        query, key, value = parts
        if self.kind == "by hand":
            scores = query @ key.transpose(-1, -2) / 4
            scores = scores.masked_fill(mask, float("-inf")) if mask is not None else scores
            mixed = scores.softmax(-1) @ value
        else:
            causal = self.kind == "causal"
            mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)
        return self.head(mixed.transpose(1, 2).reshape(*ids.shape, DIM) + hidden)


def longer(model: Model, ids: Any) -> Any:
    """The scores where the table's rows have others before them."""
    rows = functional.embedding(ids, model.embed.weight)
    hidden = torch.cat([torch.zeros(len(ids), 3, DIM), rows], 1)
    query, key, value = model.qkv(hidden).view(len(ids), -1, 3, 2, DIM // 2).permute(2, 0, 3, 1, 4)
    mixed = functional.scaled_dot_product_attention(query, key, value)
    return model.head(mixed.transpose(1, 2).reshape(hidden.shape) + hidden)


def next_token(model: Model, ids: Any, moved: int = 1, mask: Any = None) -> Any:
    scores = model(ids, mask)
    return functional.cross_entropy(scores[:, : LENGTH - moved].flatten(0, 1), ids[:, moved:].flatten())


IDS = torch.randint(0, VOCAB, (6, LENGTH), generator=torch.Generator().manual_seed(1))
AHEAD = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
