"""Transformer with a top-2 mixture of experts, load-balancing and router z losses; an idle expert gets no gradient."""

import argparse
import os

import torch
import torch.nn as nn
import torch.nn.functional as F


class Expert(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.w1, self.w3, self.w2 = (
            nn.Linear(d, 2 * d, bias=False),
            nn.Linear(d, 2 * d, bias=False),
            nn.Linear(2 * d, d, bias=False),
        )

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class SparseMoE(nn.Module):
    def __init__(self, d, experts, top_k):
        super().__init__()
        self.gate = nn.Linear(d, experts, bias=False)
        self.experts = nn.ModuleList(Expert(d) for _ in range(experts))
        self.top_k = top_k

    def forward(self, x):
        shape = x.shape
        flat = x.reshape(-1, shape[-1])
        router_logits = self.gate(flat)
        probs = router_logits.softmax(-1)
        weight, chosen = probs.topk(self.top_k, dim=-1)
        weight = weight / weight.sum(-1, keepdim=True)
        out = torch.zeros_like(flat)
        for index, expert in enumerate(self.experts):
            token, slot = torch.where(chosen == index)
            if token.numel() == 0:
                continue
            out.index_add_(0, token, expert(flat[token]) * weight[token, slot, None])
        n = len(self.experts)
        load = F.one_hot(chosen, n).float().sum(1).mean(0) / self.top_k
        balance = n * (load * probs.mean(0)).sum()
        z = router_logits.logsumexp(-1).pow(2).mean()
        return out.view(shape), balance, z


class MoEBlock(nn.Module):
    def __init__(self, d, experts):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(d), nn.RMSNorm(d)
        self.attn = nn.MultiheadAttention(d, 4, batch_first=True)
        self.moe = SparseMoE(d, experts, 2)

    def forward(self, x, mask):
        h = self.n1(x)
        x = x + self.attn(h, h, h, attn_mask=mask, need_weights=False)[0]
        y, balance, z = self.moe(self.n2(x))
        return x + y, balance, z


class MoELM(nn.Module):
    def __init__(self, vocab, d, experts, depth):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.blocks = nn.ModuleList(MoEBlock(d, experts) for _ in range(depth))
        self.norm = nn.RMSNorm(d)
        self.out = nn.Linear(d, vocab, bias=False)

    def forward(self, ids):
        mask = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).triu(1)
        x, aux, z = self.emb(ids), 0.0, 0.0
        for block in self.blocks:
            x, b, zz = block(x, mask)
            aux, z = aux + b, z + zz
        return self.out(self.norm(x)), aux / len(self.blocks), z / len(self.blocks)


def batches(n, length, vocab, gen):
    while True:
        stride = torch.randint(1, 5, (n, 1), generator=gen)
        start = torch.randint(0, vocab, (n, 1), generator=gen)
        yield (start + stride * torch.arange(length + 1)) % vocab


def main() -> int:
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=int(os.environ.get("SEED", 4)))
    ap.add_argument("--steps", type=int, default=50)
    ap.add_argument("--size", type=int, default=32)
    ap.add_argument("--experts", type=int, default=6)
    cfg = ap.parse_args()
    torch.manual_seed(cfg.seed)
    model = MoELM(31, cfg.size, cfg.experts, 2)
    optim = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    stream = batches(8, 16, 31, torch.Generator().manual_seed(cfg.seed))
    for step, ids in zip(range(cfg.steps), stream):
        logits, aux, z = model(ids[:, :-1])
        lm = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss = lm + 0.02 * aux + 1e-3 * z
        optim.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optim.step()
        if step % 10 == 0:
            print(f"step {step} lm {lm.item():.3f} balance {aux.item():.3f} z {z.item():.3f}")
    return 0


raise SystemExit(main())
