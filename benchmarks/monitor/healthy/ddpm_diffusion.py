"""Denoising diffusion on points: noise prediction with sinusoidal time embeddings, EMA model sampled at the end."""

import argparse
import copy
import math

import torch
from torch import nn
from torch.nn import functional as F


class TimeEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.register_buffer("freqs", torch.exp(-math.log(1000) * torch.arange(dim // 2) / (dim // 2)))

    def forward(self, t):
        angle = t[:, None].float() * self.freqs
        return torch.cat([angle.sin(), angle.cos()], dim=-1)


class Denoiser(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.time = nn.Sequential(TimeEmbedding(32), nn.Linear(32, hidden), nn.SiLU())
        self.inp = nn.Linear(2, hidden)
        self.mid = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(2))
        self.out = nn.Linear(hidden, 2)

    def forward(self, x, t):
        emb = self.time(t)
        h = self.inp(x)
        for layer in self.mid:
            h = h + F.silu(layer(h + emb))
        return self.out(h)


class Diffusion:
    def __init__(self, timesteps=50):
        self.T = timesteps
        self.betas = torch.linspace(1e-3, 0.2, timesteps)
        self.alphas = 1 - self.betas
        self.alpha_bar = torch.cumprod(self.alphas, 0)

    def loss(self, model, x0):
        t = torch.randint(0, self.T, (x0.shape[0],))
        noise = torch.randn_like(x0)
        a = self.alpha_bar[t][:, None]
        return F.mse_loss(model(a.sqrt() * x0 + (1 - a).sqrt() * noise, t), noise)

    @torch.no_grad()
    def sample(self, model, n):
        x = torch.randn(n, 2)
        for i in reversed(range(self.T)):
            eps = model(x, torch.full((n,), i))
            x = (x - self.betas[i] / (1 - self.alpha_bar[i]).sqrt() * eps) / self.alphas[i].sqrt()
            if i > 0:
                x = x + self.betas[i].sqrt() * torch.randn_like(x)
        return x


def swiss_roll(n):
    t = 1.5 * math.pi * (1 + 2 * torch.rand(n))
    return torch.stack([t * t.cos(), t * t.sin()], 1) / 8 + 0.02 * torch.randn(n, 2)


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--size", type=int, default=64)
    args = parser.parse_args(argv)
    torch.manual_seed(args.seed)
    model = Denoiser(args.size)
    ema = copy.deepcopy(model).eval().requires_grad_(False)
    diffusion = Diffusion()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    running = None
    for step in range(1, args.steps + 1):
        loss = diffusion.loss(model, swiss_roll(128))
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        with torch.no_grad():
            for e, p in zip(ema.parameters(), model.parameters()):
                e.lerp_(p, 0.05)
        running = loss.item() if running is None else 0.9 * running + 0.1 * loss.item()
        if step % 20 == 0:
            print(f"step {step} loss {running:.4f}")
    x = diffusion.sample(ema, 64)
    print("samples spread", x.std(0).tolist())


if __name__ == "__main__":
    main()
