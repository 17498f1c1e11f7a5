"""Transformers written out: a ViT, a small GPT with its own attention or SDPA, LoRA by hand, a diffusion U-Net, a mixture
of experts. python attention.py CASE."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from training import DEVICE, DTYPES, checkpointed, named, train

CASES: dict[str, dict[str, Any]] = {
    "vit": {"net": "vit", "optimizer": "adamw"},
    "vit-amp-bf16": {"net": "vit", "optimizer": "fused", "precision": "amp-bf16"},
    "gpt": {"net": "gpt", "optimizer": "adamw", "clip": 1.0},
    "gpt-own-attention": {"net": "gpt", "own": True, "optimizer": "adamw", "dropout": 0.1},
    "gpt-amp-bf16": {"net": "gpt", "optimizer": "fused", "precision": "amp-bf16"},
    "gpt-amp-fp16": {"net": "gpt", "own": True, "optimizer": "adamw", "precision": "amp-fp16", "clip": 1.0},
    "gpt-bf16-checkpointed": {"net": "gpt", "optimizer": "adamw", "precision": "bf16", "recompute": True},
    "gpt-lora": {"net": "gpt", "lora": 8, "optimizer": "adamw"},
    "gpt-lora-bf16": {"net": "gpt", "lora": 8, "optimizer": "adamw", "precision": "bf16", "accumulate": 2},
    "experts": {"net": "experts", "optimizer": "adamw"},
    "diffusion": {"net": "diffusion", "optimizer": "adamw", "average": True},
}


class Lora(nn.Module):
    """A frozen linear layer beside a trained product of two thin ones."""

    def __init__(self, layer: nn.Linear, rank: int) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.a = nn.Linear(layer.in_features, rank, bias=False)
        self.b = nn.Linear(rank, layer.out_features, bias=False)
        nn.init.zeros_(self.b.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return W x + B A x."""
        return self.layer(x) + self.b(self.a(x)) * 2.0


class Attention(nn.Module):
    """Self-attention, by the library's function or written out."""

    def __init__(self, width: int, heads: int, causal: bool, own: bool, dropout: float) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads, self.causal, self.own, self.dropout = heads, causal, own, dropout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the mixed tokens."""
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(x).split(width, 2))
        if self.own:
            scores = (q @ k.transpose(-2, -1)) / math.sqrt(k.shape[-1])
            future = torch.ones(length, length, device=x.device, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(future, float("-inf"))
            mixed = F.dropout(F.softmax(scores, -1), self.dropout, self.training) @ v
        else:
            mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout, is_causal=self.causal)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Experts(nn.Module):
    """A mixture of experts: each token goes to its two best, expert by expert."""

    def __init__(self, width: int, count: int = 4) -> None:
        super().__init__()
        self.gate = nn.Linear(width, count, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width)) for _ in range(count)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the weighted answers; every expert sees all tokens and is masked, so no size hangs on numbers."""
        weights, chosen = self.gate(x).softmax(-1).topk(2)
        total = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            share = (weights * (chosen == number)).sum(-1, keepdim=True)
            total = total + share * expert(x)
        return total


class Block(nn.Module):
    """A transformer layer."""

    def __init__(self, width: int, heads: int, causal: bool, own: bool, dropout: float, experts: bool) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal, own, dropout)
        self.mlp: nn.Module = Experts(width)
        if not experts:
            self.mlp = nn.Sequential(
                nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x with what attention and the perceptron add."""
        x = x + self.attention(self.first(x))
        return x + self.mlp(self.second(x))


class Gpt(nn.Module):
    """A decoder with tied embeddings."""

    def __init__(self, own: bool, dropout: float, recompute: bool, experts: bool, width: int = 256) -> None:
        super().__init__()
        self.recompute = recompute
        self.tokens, self.places = nn.Embedding(4096, width), nn.Embedding(256, width)
        self.blocks = nn.ModuleList(Block(width, 4, True, own, dropout, experts) for _ in range(4))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 4096, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        h = self.tokens(x) + self.places(torch.arange(x.shape[1], device=x.device))
        return self.head(self.norm(checkpointed(self.blocks, h, self.recompute)))


class Vit(nn.Module):
    """A vision transformer on pictures of 64 x 64."""

    def __init__(self, width: int = 192) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 8, 8)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.zeros(1, 65, width))
        self.blocks = nn.Sequential(*(Block(width, 3, False, False, 0.0, False) for _ in range(4)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 100)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        h = self.patches(x).flatten(2).transpose(1, 2)
        h = torch.cat((self.token.expand(len(x), -1, -1), h), 1) + self.places
        return self.head(self.norm(self.blocks(h))[:, 0])


class Denoiser(nn.Module):
    """A U-Net of two levels with the time and self-attention, as diffusion models have it."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.enter, self.down = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, width, 3, 2, 1)
        self.norm, self.middle = nn.GroupNorm(8, width), Attention(width, 4, False, False, 0.0)
        self.leave = nn.Conv2d(2 * width, 3, 3, padding=1)
        self.width = width

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """Return the noise that was added."""
        rates = torch.exp(torch.arange(self.width // 2, device=x.device) * (-math.log(10000.0) / (self.width // 2)))
        angles = t[:, None] * rates
        told = self.time(torch.cat((angles.sin(), angles.cos()), 1))[:, :, None, None]
        first = F.silu(self.enter(x) + told)
        h = self.down(first)
        mixed = self.middle(self.norm(h).flatten(2).transpose(1, 2)).transpose(1, 2).reshape(h.shape)
        return self.leave(torch.cat((first, F.interpolate(h + mixed, scale_factor=2.0)), 1))


def add_lora(model: nn.Module, rank: int) -> None:
    """Freeze a model and let thin products beside the projections of attention be trained."""
    model.requires_grad_(False)
    for module in model.modules():
        if isinstance(module, Attention):
            module.qkv, module.out = Lora(module.qkv, rank), Lora(module.out, rank)


def main(
    net: str,
    own: bool = False,
    dropout: float = 0.0,
    recompute: bool = False,
    lora: int = 0,
    batch: int = 4,
    **how: Any,
) -> None:
    """Train on random data."""
    model = (
        Vit()
        if net == "vit"
        else Denoiser()
        if net == "diffusion"
        else Gpt(own, dropout, recompute, experts=net == "experts")
    )
    if lora:
        add_lora(model, lora)
    dtype = DTYPES.get(str(how.get("precision")), torch.float32)

    def batches() -> tuple[torch.Tensor, ...]:
        if net == "vit":
            return torch.randn(batch, 3, 64, 64, device=DEVICE, dtype=dtype), torch.zeros(
                batch, dtype=torch.int64, device=DEVICE
            )
        if net == "diffusion":
            return torch.randn(batch, 3, 32, 32, device=DEVICE), torch.rand(batch, device=DEVICE)
        tokens = torch.randint(0, 4096, (batch, 129), device=DEVICE)
        return tokens[:, :-1], tokens[:, 1:]

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if net == "diffusion":
            noise = torch.randn_like(x)
            level = y[:, None, None, None]
            return F.mse_loss(model(level.sqrt() * x + (1 - level).sqrt() * noise, y), noise)
        return F.cross_entropy(model(x).flatten(0, -2), y.flatten())

    train(model, batches, loss, **how)


if __name__ == "__main__":
    main(**named(CASES))
