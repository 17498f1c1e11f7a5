"""VQ-VAE: straight-through quantisation with a codebook in buffers that follows moving averages, not the optimizer."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class EMAQuantizer(nn.Module):
    def __init__(self, codes, dim, decay=0.95, commitment=0.25):
        super().__init__()
        self.decay, self.commitment = decay, commitment
        book = 0.2 * torch.randn(codes, dim)
        self.register_buffer("codebook", book)
        self.register_buffer("count", torch.ones(codes))
        self.register_buffer("total", book.clone())

    def forward(self, z):
        flat = z.reshape(-1, z.shape[-1])
        index = torch.cdist(flat, self.codebook).argmin(1)
        q = self.codebook[index].view_as(z)
        if self.training:
            with torch.no_grad():
                hot = F.one_hot(index, len(self.codebook)).type_as(flat)
                self.count.mul_(self.decay).add_(hot.sum(0), alpha=1 - self.decay)
                self.total.mul_(self.decay).add_(hot.T @ flat, alpha=1 - self.decay)
                self.codebook.copy_(self.total / self.count.clamp_min(1e-3).unsqueeze(1))
        loss = self.commitment * F.mse_loss(z, q.detach())
        return z + (q - z).detach(), loss, index.unique().numel()


class VQVAE(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(1, width, 4, 2, 1), nn.ReLU(), nn.Conv2d(width, 8, 4, 2, 1))
        self.vq = EMAQuantizer(16, 8)
        self.dec = nn.Sequential(
            nn.ConvTranspose2d(8, width, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(width, 1, 4, 2, 1)
        )

    def forward(self, x):
        z = self.enc(x).permute(0, 2, 3, 1)
        q, vq_loss, used = self.vq(z)
        return self.dec(q.permute(0, 3, 1, 2)), vq_loss, used


def checkers(n):
    coarse = torch.randint(0, 2, (n, 1, 4, 4)).float()
    return F.interpolate(coarse, scale_factor=4)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=6)
    p.add_argument("--steps", type=int, default=80)
    p.add_argument("--size", type=int, default=16)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    model = VQVAE(args.size)
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    for i in range(args.steps):
        x = checkers(24)
        recon, vq_loss, used = model(x)
        rec = F.mse_loss(recon, x)
        opt.zero_grad()
        (rec + vq_loss).backward()
        opt.step()
        if i % 12 == 0:
            print(f"{i}: reconstruction {rec.item():.4f} commitment {vq_loss.item():.4f} codes in use {used}")
    model.eval()
    x = checkers(64)
    with torch.no_grad():
        print("held out", F.mse_loss(model(x)[0], x).item())


if __name__ == "__main__":
    main()
