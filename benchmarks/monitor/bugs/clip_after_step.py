"""Clipping comes after the optimizer's step, when the gradients have already been used."""
# source: https://github.com/VGraphRNN/VGRNN/issues/4
# first effect: step 0
# names: clip_grad_norm_, SGD
# family: clipping
# detectable: yes gradients are clipped after the step that used them and cleared before the next one

import argparse

import torch
from torch import nn


class VariationalGRU(nn.Module):
    def __init__(self, n_in=6, n_h=24, n_z=4):
        super().__init__()
        self.enc = nn.GRU(n_in, n_h, batch_first=True)
        self.mu, self.logvar = nn.Linear(n_h, n_z), nn.Linear(n_h, n_z)
        self.dec = nn.Sequential(nn.Linear(n_z, n_h), nn.ReLU(), nn.Linear(n_h, n_in))

    def forward(self, x):
        h, _ = self.enc(x)
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        recon = 20 * (self.dec(z) - x).pow(2).sum(-1).mean()
        kld = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(-1).mean()
        return recon + kld


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--fixed", action="store_true")
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--steps", type=int, default=30)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    model = VariationalGRU()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for k in range(args.steps):
        phase = 6.28 * torch.rand(32, 1, 6)
        x = torch.sin(0.4 * torch.arange(15.0)[None, :, None] + phase)
        optimizer.zero_grad()
        loss = model(x)
        loss.backward()
        if args.fixed:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 10)
            optimizer.step()
        else:
            optimizer.step()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 10)
        if k % 6 == 0:
            print(f"epoch {k:03d}, loss = {loss.item():.4f}")


if __name__ == "__main__":
    main()
