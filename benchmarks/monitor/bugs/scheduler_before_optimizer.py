"""The schedule advances before the step that its rate was meant for, so the first value of the warm-up is skipped and all come one step early."""
# source: https://github.com/lincc-frameworks/hyrax/issues/983
# first effect: step 0
# names: LambdaLR, AdamW
# family: schedule
# detectable: yes the scheduler steps before the optimizer in every iteration (torch also warns once)

import argparse
import math

import torch
from torch import nn


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, 4))
        self.decoder = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 32))
        self.optimizer = torch.optim.AdamW(self.parameters(), lr=5e-3)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda e: 0.5 * (1 + math.cos(0.1 * e)))

    def train_batch(self, x, fixed):
        self.optimizer.zero_grad()
        loss = nn.functional.mse_loss(self.decoder(self.encoder(x)), x)
        loss.backward()
        if not fixed:
            self.scheduler.step()
        self.optimizer.step()
        if fixed:
            self.scheduler.step()
        return {"loss": loss.item()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Autoencoder()
    factors = torch.randn(4, 32)
    for step in range(args.steps):
        info = model.train_batch(torch.randn(64, 4) @ factors, args.fixed)
        if step % 5 == 0:
            print(step, info)
