"""A language model with 8 experts a layer, of which each token takes 2, written by hand, under autocast to bf16: 16 x 512."""

import torch
import torch.nn as nn
import torch.nn.functional as F

WIDTH, HEADS, LAYERS, EXPERTS, VOCABULARY, LENGTH = 768, 12, 8, 8, 32000, 512


class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(WIDTH, 2048, bias=False)
        self.up = nn.Linear(WIDTH, 2048, bias=False)
        self.down = nn.Linear(2048, WIDTH, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.experts = nn.ModuleList(Expert() for _ in range(EXPERTS))

    def forward(self, x):
        flat = x.reshape(-1, WIDTH)
        shares, chosen = F.softmax(self.router(flat).float(), dim=-1).topk(2, dim=-1)
        shares = shares / shares.sum(dim=-1, keepdim=True)
        out = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            rows, place = torch.where(chosen == number)
            made = expert(flat[rows]) * shares[rows, place, None]
            out.index_add_(0, rows, made.to(out.dtype))
        return out.view_as(x)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.experts = Experts()

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.experts(self.norm2(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.size(1), device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


torch.manual_seed(0)
model = Model().to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
for step in range(8):
    ids = torch.randint(0, VOCABULARY, (16, LENGTH + 1), device="cuda")
    with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, VOCABULARY), ids[:, 1:].reshape(-1))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
print(f"loss {loss.item():.3f}")
