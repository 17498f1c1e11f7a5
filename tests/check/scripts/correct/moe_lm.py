import torch
import torch.nn as nn
import torch.nn.functional as F
from dataclasses import dataclass


@dataclass
class GPTConfig:
    vocab_size: int = 50304
    block_size: int = 512
    n_layer: int = 6
    n_head: int = 8
    n_embd: int = 512
    n_expert: int = 8
    top_k: int = 2


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.qkv = nn.Linear(c.n_embd, 3 * c.n_embd, bias=False)
        self.proj = nn.Linear(c.n_embd, c.n_embd, bias=False)
        self.h = c.n_head

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).split(C, dim=2)
        q, k, v = (t.view(B, T, self.h, C // self.h).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).contiguous().view(B, T, C))


class MoE(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate = nn.Linear(c.n_embd, c.n_expert, bias=False)
        self.experts = nn.ModuleList([nn.Sequential(nn.Linear(c.n_embd, 4 * c.n_embd), nn.GELU(), nn.Linear(4 * c.n_embd, c.n_embd)) for _ in range(c.n_expert)])
        self.k = c.top_k

    def forward(self, x):
        B, T, C = x.shape
        flat = x.reshape(-1, C)
        probs = F.softmax(self.gate(flat), dim=-1)
        w, idx = probs.topk(self.k, dim=-1)
        w = w / w.sum(-1, keepdim=True)
        out = torch.zeros_like(flat)
        for e, expert in enumerate(self.experts):
            rows, slot = torch.where(idx == e)
            if rows.numel() == 0:
                continue
            out.index_add_(0, rows, expert(flat[rows]) * w[rows, slot].unsqueeze(-1))
        load = F.one_hot(idx[:, 0], len(self.experts)).float().mean(0)
        aux = len(self.experts) * (load * probs.mean(0)).sum()
        return out.view(B, T, C), aux


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(c.n_embd), nn.LayerNorm(c.n_embd)
        self.attn, self.moe = Attention(c), MoE(c)

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        y, aux = self.moe(self.n2(x))
        return x + y, aux


class GPT(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(c.vocab_size, c.n_embd), nn.Embedding(c.block_size, c.n_embd)
        self.blocks = nn.ModuleList([Block(c) for _ in range(c.n_layer)])
        self.norm = nn.LayerNorm(c.n_embd)
        self.head = nn.Linear(c.n_embd, c.vocab_size, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, ids, targets):
        x = self.wte(ids) + self.wpe(torch.arange(ids.size(1), device=ids.device))
        aux = 0.0
        for b in self.blocks:
            x, a = b(x)
            aux = aux + a
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1)) + 0.01 * aux / len(self.blocks)


def get_batch(data, c, n, device):
    ix = torch.randint(len(data) - c.block_size - 1, (n,))
    x = torch.stack([data[i : i + c.block_size] for i in ix])
    y = torch.stack([data[i + 1 : i + 1 + c.block_size] for i in ix])
    return x.pin_memory().to(device, non_blocking=True), y.pin_memory().to(device, non_blocking=True)


def main():
    torch.manual_seed(1337)
    torch.set_float32_matmul_precision("high")
    c = GPTConfig()
    device = "cuda"
    data = torch.load("tokens.pt", weights_only=True).long()
    model = GPT(c).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=6e-4, total_steps=5000, pct_start=0.05)
    for it in range(5000):
        x, y = get_batch(data, c, 16, device)
        with torch.amp.autocast("cuda", dtype=torch.bfloat16):
            loss = model(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        opt.zero_grad(set_to_none=True)
        if it % 100 == 0:
            print(it, loss.item())


if __name__ == "__main__":
    main()
