"""A decoder that is fine-tuned or trained as published measurements describe it: python decoder.py JSON.

The JSON holds what ``published.py`` reads from a row: the architecture, batch, length, LoRA, how the loss is taken.
It is written after what LitGPT does (its release of the measurements): one projection for queries, keys and values, keys
and values repeated for every head, LoRA with dropout 0.05, RMS norm and rotary positions out of elementary operators,
weights in bfloat16, the head in chunks of 128 tokens, logits turned into fp32 by Lightning Fabric.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DROPOUT, CHUNK = 0.05, 128


class RMSNorm(nn.Module):
    """The norm, computed in fp32 step by step."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the normed tokens."""
        dtype = x.dtype
        x = x.float()
        normed = x * torch.rsqrt(torch.mean(x * x, dim=-1, keepdim=True) + 1e-5)
        return (normed * self.weight.float()).to(dtype)


class Linear(nn.Module):
    """A linear layer, with LoRA where a rank is given."""

    def __init__(self, inputs: int, outputs: int, bias: bool, rank: int | None) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=bias)
        self.rank = rank
        if rank:
            self.a, self.b = nn.Parameter(torch.empty(rank, inputs)), nn.Parameter(torch.empty(outputs, rank))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return W x, and B A x if there are adapters."""
        plain = self.linear(x)
        if not self.rank:
            return plain
        thin = F.dropout(x, DROPOUT, self.training) @ self.a.transpose(0, 1) @ self.b.transpose(0, 1)
        return plain + thin * 2.0


class Projection(nn.Module):
    """Queries, keys and values at once, with LoRA for some of them."""

    def __init__(
        self, width: int, parts: tuple[int, int, int], bias: bool, rank: int | None, chosen: list[bool]
    ) -> None:
        super().__init__()
        self.linear = nn.Linear(width, sum(parts), bias=bias)
        self.rank, self.all = rank if rank and any(chosen) else None, all(chosen)
        self.equal = len(set(parts)) == 1
        if self.rank:
            self.shapes = [part for part, use in zip(parts, chosen, strict=True) if use]
            self.a = nn.Parameter(torch.empty(self.rank * len(self.shapes), width))
            self.b = nn.Parameter(torch.empty(sum(self.shapes), self.rank))
            ends = [sum(parts[: at + 1]) for at in range(3)]
            places = [range(end - part, end) for end, part, use in zip(ends, parts, chosen, strict=True) if use]
            self.register_buffer("places", torch.tensor([i for place in places for i in place]), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the three, side by side."""
        plain = self.linear(x)
        if not self.rank:
            return plain
        after = F.linear(F.dropout(x, DROPOUT, self.training), self.a).transpose(-2, -1)
        weight = self.b.unsqueeze(-1)
        if self.equal:
            wide = F.conv1d(after, weight, groups=len(self.shapes))
        else:
            inputs, weights = after.chunk(len(self.shapes), dim=1), weight.split(self.shapes)
            wide = torch.cat([F.conv1d(i, w) for i, w in zip(inputs, weights, strict=True)], dim=1)
        wide = wide.transpose(-2, -1) * 2.0
        if not self.all:
            wide = wide.new_zeros(*wide.shape[:-1], plain.shape[-1]).index_copy_(-1, self.places.clone(), wide)
        return plain + wide


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turn halves of the heads by their positions."""
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return (x * cos + turned * sin).to(x.dtype)


def capped(x: torch.Tensor, cap: float) -> torch.Tensor:
    """Hold values between -cap and cap."""
    return torch.tanh(x / cap) * cap


def capped_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cap: float) -> torch.Tensor:
    """Return causal attention with capped scores, which no kernel offers."""
    scores = capped(q @ k.mT * q.shape[-1] ** -0.5, cap)
    mask = torch.ones(q.shape[2], q.shape[2], dtype=q.dtype, device=q.device).triu(diagonal=1)
    mask.masked_fill_(mask.bool(), float("-inf"))
    return F.softmax(scores + mask, dim=-1, dtype=torch.float).to(q.dtype) @ v


class Block(nn.Module):
    """A layer."""

    def __init__(self, arch: dict[str, Any], rank: int | None, targets: list[str]) -> None:
        super().__init__()
        width, self.heads, self.groups = arch["hidden"], arch["heads"], arch["kv_heads"]
        self.size = arch["head_dim"]
        self.gated, self.parallel, bias = arch["gated"], arch["parallel_residual"], arch["bias"]
        norm = RMSNorm if arch["rmsnorm"] else nn.LayerNorm
        self.first = norm(width)
        self.second = None if arch["shared_norm"] else norm(width)
        self.after = nn.ModuleList(norm(width) for _ in range(2)) if arch["post_norms"] else None
        self.parts = (self.heads * self.size, self.groups * self.size, self.groups * self.size)
        chosen = [name in targets for name in ("query", "key", "value")]
        self.qkv = Projection(width, self.parts, bias, rank, chosen)
        self.out = Linear(self.parts[0], width, bias, rank if "projection" in targets else None)
        inner = rank if "mlp" in targets else None
        self.up = Linear(width, arch["ffn"], bias, inner)
        self.gate = Linear(width, arch["ffn"], bias, inner) if self.gated else None
        self.down = Linear(arch["ffn"], width, bias, inner)
        self.act, self.rotary, self.cap = arch["act"], arch["rotary"], arch["cap"]

    def attend(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """Return what attention adds."""
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).split(self.parts, dim=-1)
        q = q.view(batch, length, self.heads, self.size).transpose(1, 2)
        k, v = (t.view(batch, length, self.groups, self.size).transpose(1, 2) for t in (k, v))
        turned = self.rotary
        q = torch.cat((rotate(q[..., :turned], cos, sin), q[..., turned:]), dim=-1)
        k = torch.cat((rotate(k[..., :turned], cos, sin), k[..., turned:]), dim=-1)
        if self.groups != self.heads:
            k, v = (t.repeat_interleave(self.heads // self.groups, dim=1) for t in (k, v))
        if self.cap:
            mixed = capped_attention(q, k, v, self.cap[0]).transpose(1, 2)
        else:
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        return self.out(mixed.reshape(batch, length, self.heads * self.size))

    def feed(self, x: torch.Tensor) -> torch.Tensor:
        """Return what the perceptron adds."""
        act = F.silu if self.act == "swiglu" else F.gelu
        return self.down(act(self.up(x)) * self.gate(x) if self.gate is not None else act(self.up(x)))

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """Return the layer's tokens."""
        normed = self.first(x)
        mixed = self.attend(normed, cos, sin)
        if self.after is not None:
            mixed = self.after[0](mixed)
        if self.parallel:
            normed = normed if self.second is None else self.second(x)
            return self.feed(normed) + (mixed + x)
        x = mixed + x
        fed = self.feed(self.second(x) if self.second is not None else x)
        return (self.after[1](fed) if self.after is not None else fed) + x


class Decoder(nn.Module):
    """Embedding, layers, head."""

    def __init__(self, arch: dict[str, Any], length: int, rank: int | None, targets: list[str]) -> None:
        super().__init__()
        self.tokens = nn.Embedding(arch["vocab"], arch["hidden"])
        self.blocks = nn.ModuleList(Block(arch, rank, targets) for _ in range(arch["layers"]))
        self.norm = (RMSNorm if arch["rmsnorm"] else nn.LayerNorm)(arch["hidden"])
        self.head = Linear(arch["hidden"], arch["vocab"], arch["head_bias"], rank if "head" in targets else None)
        if arch["tied"]:
            self.head.linear.weight = self.tokens.weight
        self.cap = arch["cap"]
        places = torch.outer(torch.arange(length).float(), torch.ones(arch["rotary"]))
        self.register_buffer("cos", places.cos(), persistent=False)
        self.register_buffer("sin", places.sin(), persistent=False)

    def forward(self, x: torch.Tensor, chunk: int) -> Any:
        """Return the logits, as a list where they are made in chunks."""
        h = self.tokens(x)
        for block in self.blocks:
            h = block(h, self.cos[: x.shape[1]], self.sin[: x.shape[1]])
        h = self.norm(h)
        parts = [self.logits(part) for part in h.split(chunk or h.shape[1], dim=1)]
        return parts if chunk else parts[0]

    def logits(self, h: torch.Tensor) -> torch.Tensor:
        """Return the logits of some tokens."""
        found = self.head(h)
        return capped(found, self.cap[1]) if self.cap else found


def chunked_loss(logits: list[torch.Tensor], targets: torch.Tensor) -> torch.Tensor:
    """Return the mean loss of logits in chunks."""
    logits[-1] = logits[-1][..., :-1, :]
    flat = [part.reshape(-1, part.size(-1)) for part in logits]
    wanted = [part.reshape(-1) for part in targets[..., 1:].split(logits[0].size(1), dim=1)]
    losses = [F.cross_entropy(a, b, reduction="none") for a, b in zip(flat, wanted, strict=True)]
    return torch.cat(losses).sum() / targets[..., 1:].numel()


def main(told: dict[str, Any]) -> None:
    """Train for three steps."""
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(DEVICE):
        model = Decoder(told["arch"], told["length"], told["rank"], told["targets"])
    torch.set_default_dtype(torch.float32)
    model.to(DEVICE, torch.bfloat16)
    if told["rank"]:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name.endswith((".a", ".b")))
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=2e-4, **told["optimizer"])
    model.train()
    for number in range(3 * told["accumulate"]):
        tokens = torch.randint(0, 1000, (told["batch"], told["length"]), device=DEVICE)
        if told["chunked"]:
            # The name keeps the logits alive through the backward pass and the next forward pass, as it does there.
            logits = [part.float() for part in model(tokens, CHUNK)]
            loss = chunked_loss(logits, tokens)
        else:
            logits = model(tokens, 0)
            loss = F.cross_entropy(logits.reshape(-1, logits.size(-1)), tokens.reshape(-1))
        (loss / told["accumulate"]).backward()
        if (number + 1) % told["accumulate"] == 0:
            optimizer.step()
            optimizer.zero_grad()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
