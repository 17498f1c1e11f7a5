"""`zero_grad` stands between the backward pass and the step, so the optimizer never sees a gradient."""
# source: https://github.com/lucidrains/byol-pytorch/issues/93
# first effect: step 0
# names: zero_grad, Adam
# family: gradients
# detectable: yes gradients are cleared after backward and before the step, which changes nothing

import argparse
import copy

import torch
import torch.nn.functional as F
from torch import nn


class BYOLTrainer:
    def __init__(self, net, fixed):
        self.fixed = fixed
        self.online = net
        self.predictor = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
        self.target = copy.deepcopy(net).requires_grad_(False)
        self.optimizer = torch.optim.Adam([*net.parameters(), *self.predictor.parameters()], lr=3e-3)

    def loss(self, one, two):
        p = F.normalize(self.predictor(self.online(one)), dim=-1)
        with torch.no_grad():
            z = F.normalize(self.target(two), dim=-1)
        return (2 - 2 * (p * z).sum(-1)).mean()

    def train(self, steps):
        for step in range(steps):
            images = torch.randn(64, 20)
            loss = self.loss(images + 0.1 * torch.randn(64, 20), images + 0.1 * torch.randn(64, 20))
            if self.fixed:
                self.optimizer.zero_grad()
            loss.backward()
            if not self.fixed:
                self.optimizer.zero_grad()
            self.optimizer.step()
            with torch.no_grad():
                for t, o in zip(self.target.parameters(), self.online.parameters(), strict=True):
                    t.lerp_(o, 0.01)
            if step % 6 == 0:
                print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    BYOLTrainer(nn.Sequential(nn.Linear(20, 48), nn.ReLU(), nn.Linear(48, 16)), args.fixed).train(args.steps)
