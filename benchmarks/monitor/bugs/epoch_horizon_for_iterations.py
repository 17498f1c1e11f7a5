"""A cosine schedule that is stepped at every iteration was given the number of epochs as its length: it runs out early and swings up and down again."""
# source: https://github.com/ScrollPrize/villa/pull/1495
# first effect: step 1
# names: CosineAnnealingLR, T_max
# family: schedule
# detectable: yes the schedule is stepped past its end and the rate rises again

import argparse

import torch
from torch import nn


class Trainer:
    def __init__(self, args):
        self.args = args
        self.max_epoch, self.iterations = 5, args.steps // 5
        self.model = nn.Sequential(nn.Conv1d(1, 12, 5, padding=2), nn.GELU(), nn.Conv1d(12, 1, 5, padding=2))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
        self.scheduler = self.get_scheduler()

    def get_scheduler(self):
        steps = self.max_epoch * self.iterations if self.args.fixed else self.max_epoch
        return torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=steps)

    def train(self):
        for epoch in range(self.max_epoch):
            rates = []
            for _ in range(self.iterations):
                clean = torch.sin(torch.linspace(0, 12, 48) + 6.28 * torch.rand(16, 1, 1))
                loss = nn.functional.mse_loss(self.model(clean + 0.4 * torch.randn_like(clean)), clean)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.scheduler.step()
                rates.append(f"{self.scheduler.get_last_lr()[0]:.3f}")
            print(f"epoch {epoch} loss {loss.item():.4f} rates {' '.join(rates)}")


parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=40)
arguments = parser.parse_args()
torch.manual_seed(arguments.seed)
Trainer(arguments).train()
