"""A diffusion transformer (DiT-B/2) in autocast to bf16, with an average of its weights: batches of 128 latents of 32 x 32."""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm2 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x, c):
        shift1, scale1, gate1, shift2, scale2, gate2 = self.modulation(c)[:, None].chunk(6, dim=-1)
        h = self.norm1(x) * (1 + scale1) + shift1
        x = x + gate1 * self.attention(h, h, h, need_weights=False)[0]
        h = self.norm2(x) * (1 + scale2) + shift2
        return x + gate2 * self.mlp(h)


class DiT(nn.Module):
    def __init__(self, width=768, depth=12, heads=12, classes=1000):
        super().__init__()
        self.patches = nn.Conv2d(4, width, 2, 2)
        self.places = nn.Parameter(torch.randn(1, 256, width) * 0.02)
        self.time = nn.Sequential(nn.Linear(256, width), nn.SiLU(), nn.Linear(width, width))
        self.label = nn.Embedding(classes + 1, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.last = nn.Linear(width, 2 * 2 * 4)

    def forward(self, x, t, y):
        x = self.patches(x).flatten(2).transpose(1, 2) + self.places
        rates = torch.exp(-math.log(10000) * torch.arange(128, device=t.device) / 128)
        angles = t[:, None].float() * rates[None]
        c = self.time(torch.cat([torch.cos(angles), torch.sin(angles)], dim=-1)) + self.label(y)
        for block in self.blocks:
            x = block(x, c)
        x = self.last(self.norm(x))
        return x.view(-1, 16, 16, 2, 2, 4).permute(0, 5, 1, 3, 2, 4).reshape(-1, 4, 32, 32)


def main(batch=128, steps=10):
    torch.manual_seed(0)
    model = DiT().cuda()
    average = copy.deepcopy(model).eval().requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0)
    for _ in range(steps):
        x = torch.randn(batch, 4, 32, 32, device="cuda")
        y = torch.randint(0, 1000, (batch,), device="cuda")
        t = torch.randint(0, 1000, (batch,), device="cuda")
        noise = torch.randn_like(x)
        share = torch.cos(t.float() / 1000 * math.pi / 2)[:, None, None, None]
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.mse_loss(model(share * x + (1 - share**2).sqrt() * noise, t, y), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for mine, its in zip(average.parameters(), model.parameters(), strict=True):
                mine.lerp_(its, 1e-4)
    print(f"loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
