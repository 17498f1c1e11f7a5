"""The cosine schedule is as long as an epoch has batches, but is stepped once per epoch: the rate never gets anywhere."""
# source: https://github.com/sthalles/SimCLR/issues/8
# first effect: step 1
# names: CosineAnnealingLR
# family: schedule
# detectable: no a rate that stays for an epoch is common; only at the end does the unused horizon show

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def nt_xent(za, zb, temperature=0.3):
    z = F.normalize(torch.cat([za, zb]), dim=1)
    sim = (z @ z.T / temperature).fill_diagonal_(float("-inf"))
    n = len(za)
    return F.cross_entropy(sim, torch.cat([torch.arange(n, 2 * n), torch.arange(n)]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    loader = DataLoader(TensorDataset(torch.randn(320, 24)), batch_size=32, shuffle=True, drop_last=True)
    encoder = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 16))
    optimizer = torch.optim.Adam(encoder.parameters(), lr=5e-3, weight_decay=1e-6)
    epochs = args.steps // len(loader)
    horizon = epochs * len(loader) if args.fixed else len(loader)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=horizon, eta_min=0)
    for epoch in range(epochs):
        for (x,) in loader:
            optimizer.zero_grad()
            loss = nt_xent(encoder(x + 0.3 * torch.randn_like(x)), encoder(x + 0.3 * torch.randn_like(x)))
            loss.backward()
            optimizer.step()
            if args.fixed:
                scheduler.step()
        if not args.fixed:
            scheduler.step()
        print(f"epoch {epoch} loss {loss.item():.4f} lr {scheduler.get_last_lr()[0]:.5f}")
