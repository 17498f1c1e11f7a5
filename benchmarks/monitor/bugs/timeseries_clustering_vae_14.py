"""A recurrent variational autoencoder whose noise is meant for training, and which is in evaluation mode from the beginning."""
# source: https://github.com/tejaslodaya/timeseries-clustering-vae/issues/14
# first effect: step 0
# names: training, eval
# family: mode
# detectable: yes a model with dropout is trained in evaluation mode and never in training mode

import argparse

import torch
from torch import nn


class Series(nn.Module):
    def __init__(self):
        super().__init__()
        self.inward = nn.GRU(2, 24, batch_first=True)
        self.drop = nn.Dropout(0.1)
        self.mean, self.log_var = nn.Linear(24, 4), nn.Linear(24, 4)
        self.start = nn.Linear(4, 24)
        self.outward = nn.GRU(2, 24, batch_first=True)
        self.out = nn.Linear(24, 2)

    def forward(self, series):
        last = self.drop(self.inward(series)[1][0])
        mean, log_var = self.mean(last), self.log_var(last)
        code = mean
        if self.training:
            code = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
        hidden, _ = self.outward(torch.zeros_like(series), self.start(code)[None])
        return self.out(hidden), mean, log_var


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Series()
    if not args.fixed:
        model.eval()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    moments = torch.linspace(0, 3, 20)
    for step in range(args.steps):
        phase, speed = torch.rand(16, 1, 1) * 6, 1 + torch.rand(16, 1, 1)
        series = torch.cat([(speed * moments[:, None] + phase).sin(), (speed * moments[:, None] + phase).cos()], dim=2)
        again, mean, log_var = model(series)
        kl = -0.5 * (1 + log_var - mean**2 - log_var.exp()).sum(1).mean()
        loss = nn.functional.mse_loss(again, series) + 0.01 * kl
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 4 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
