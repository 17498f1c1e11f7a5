"""Fused attention is called with a rate of dropout whatever the mode is, so that losses are estimated with dropout."""
# source: https://github.com/karpathy/nanoGPT/pull/240
# first effect: step 0
# names: scaled_dot_product_attention, dropout
# family: mode
# detectable: yes dropout works while the model is in evaluation mode

import argparse
import math

import torch
import torch.nn as nn
from torch.nn import functional as F


class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head, dropout, fixed):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)
        self.resid_dropout = nn.Dropout(dropout)
        self.n_head, self.dropout, self.fixed = n_head, dropout, fixed

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = (t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for t in self.c_attn(x).split(C, 2))
        rate = self.dropout if self.training or not self.fixed else 0
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=rate, is_causal=True)
        return self.resid_dropout(self.c_proj(y.transpose(1, 2).reshape(B, T, C)))


class Block(nn.Module):
    def __init__(self, n_embd, n_head, dropout, fixed):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.attn = CausalSelfAttention(n_embd, n_head, dropout, fixed)
        self.mlp = nn.Sequential(
            nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd), nn.Dropout(dropout)
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, vocab, block_size, fixed, n_embd=32, n_layer=2):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, n_embd), nn.Embedding(block_size, n_embd)
        self.h = nn.ModuleList(Block(n_embd, 4, 0.2, fixed) for _ in range(n_layer))
        self.ln_f = nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, vocab, bias=False)
        self.wte.weight = self.lm_head.weight
        nn.init.normal_(self.lm_head.weight, std=0.02)

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()

    torch.manual_seed(1337 + args.seed)
    text = "the quick brown fox jumps over the lazy dog and runs on " * 40
    letters = sorted(set(text))
    data = torch.tensor([letters.index(letter) for letter in text])
    splits = {"train": data[: len(data) * 9 // 10], "val": data[len(data) * 9 // 10 :]}
    block_size, batch_size = 24, 12

    def get_batch(split):
        ix = torch.randint(len(splits[split]) - block_size, (batch_size,))
        x = torch.stack([splits[split][i : i + block_size] for i in ix])
        y = torch.stack([splits[split][i + 1 : i + 1 + block_size] for i in ix])
        return x, y

    model = GPT(len(letters), block_size, args.fixed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.95), weight_decay=0.1)

    @torch.no_grad()
    def estimate_loss():
        model.eval()
        out = {split: sum(model(*get_batch(split))[1].item() for _ in range(4)) / 4 for split in splits}
        model.train()
        return out

    X, Y = get_batch("train")
    for iter_num in range(args.steps):
        lr = 2e-3 * 0.5 * (1 + math.cos(math.pi * iter_num / args.steps))
        for group in optimizer.param_groups:
            group["lr"] = lr
        if iter_num % 10 == 0:
            losses = estimate_loss()
            print(f"step {iter_num}: train loss {losses['train']:.4f}, val loss {losses['val']:.4f}")
        _, loss = model(X, Y)
        X, Y = get_batch("train")
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


if __name__ == "__main__":
    main()
