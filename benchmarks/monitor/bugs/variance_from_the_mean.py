"""A variational autoencoder whose line for the mean was copied: the layer made for the variance is never called."""
# source: https://github.com/pytorch/examples/blob/main/vae/main.py
# first effect: step 0
# names: model.spread, model.mean
# family: gradients
# detectable: yes a layer says the same twice in each pass, and the one made next to it, just like it, is never called

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()
torch.manual_seed(args.seed)


class Model(nn.Module):
    """An encoder of two layers and a decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(12, 32)
        self.mean, self.spread = nn.Linear(32, 4), nn.Linear(32, 4)
        self.decoder = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 12))

    def forward(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        found = self.hidden(rows).relu()
        mean = self.mean(found)
        spread = self.spread(found) if args.fixed else self.mean(found)
        return self.decoder(mean + torch.randn_like(mean) * (spread / 2).exp()), mean, spread


model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
mixing = torch.randn(3, 12)
for step in range(args.steps):
    rows = torch.randn(32, 3) @ mixing
    said, mean, spread = model(rows)
    divergence = (mean**2 + spread.exp() - spread - 1).sum(1).mean() / 2
    loss = (said - rows).pow(2).sum(1).mean() + divergence
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, f"loss {loss.item():.4f}")
