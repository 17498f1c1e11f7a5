"""A decoder that is fine-tuned or trained as published measurements describe it: python decoder.py JSON.

The JSON holds what ``published.py`` reads from a row: the architecture, batch, length, LoRA, how the loss is taken.
It is written after what LitGPT does (its release of the measurements): one projection for queries, keys and values, keys
and values repeated for every head, LoRA with dropout 0.05, RMS norm and rotary positions out of elementary operators,
weights in bfloat16, the head in chunks of 128 tokens, logits turned into fp32 by Lightning Fabric.
"""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from typing import Any

import torch
from layers import DEVICE, Linear, Projection, RMSNorm, settings
from torch import nn
from torch.nn import functional as F

CHUNK = 128


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


def made(told: dict[str, Any], where: str) -> nn.Module:
    """Return the model in bfloat16; in four bits, positions stay in fp32."""
    settings["quant"] = told.get("quant")
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(where):
        model = Decoder(told["arch"], told["length"], told["rank"], told["targets"])
    torch.set_default_dtype(torch.float32)
    if told["rank"]:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name.endswith((".a", ".b")))
    return model.to(where) if settings["quant"] else model.to(where, torch.bfloat16)


def spread(told: dict[str, Any]) -> nn.Module:
    """Return the model as one of several ranks holds it."""
    from torch import distributed
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    distributed.init_process_group("nccl")
    torch.cuda.set_device(0)
    if told["spread"] == "ddp":
        return nn.parallel.DistributedDataParallel(made(told, DEVICE), device_ids=[0])
    with torch.device("meta"):
        model = made(told, "meta")
    model = FullyShardedDataParallel(
        model,
        auto_wrap_policy=ModuleWrapPolicy({Block}),
        mixed_precision=MixedPrecision(torch.bfloat16, torch.bfloat16, torch.bfloat16),
        use_orig_params=True,
        device_id=0,
        param_init_fn=lambda module: module.to_empty(device=DEVICE, recurse=False),
    )
    if told["recompute"]:
        apply_activation_checkpointing(model, check_fn=lambda module: isinstance(module, Block))
    if told["loaded"]:  # the checkpoint is written into whole weights, of all layers at once
        with FullyShardedDataParallel.summon_full_params(model, writeback=True, rank0_only=False), torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
    return model


def optimizer_of(told: dict[str, Any], model: nn.Module) -> torch.optim.Optimizer:
    """Return AdamW for what is trained; in four bits the paged one, whose states lie beside PyTorch's memory."""
    trained = [p for p in model.parameters() if p.requires_grad]
    if settings["quant"]:
        import bitsandbytes

        return bitsandbytes.optim.PagedAdamW(trained, lr=2e-4)
    return torch.optim.AdamW(trained, lr=2e-4, **told["optimizer"])


def main(told: dict[str, Any]) -> None:
    """Train for two steps."""
    model = spread(told) if told.get("spread") else made(told, DEVICE)
    optimizer = optimizer_of(told, model)
    model.train()
    for count in (1, told["accumulate"]):  # the states of the optimizer are there from the second step on
        for number in range(count):
            last = number + 1 == count
            tokens = torch.randint(0, 1000, (told["batch"], told["length"]), device=DEVICE)
            with nullcontext() if last or not told.get("spread") else model.no_sync():
                if told["chunked"]:
                    # The names keep the logits and the loss alive through the next forward pass, as they do there.
                    logits = [part.float() for part in model(tokens, CHUNK)]
                    loss = chunked_loss(logits, tokens)
                else:
                    logits = model(tokens, 0)
                    loss = F.cross_entropy(logits.reshape(-1, logits.size(-1)), tokens.reshape(-1))
                (loss / count).backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
