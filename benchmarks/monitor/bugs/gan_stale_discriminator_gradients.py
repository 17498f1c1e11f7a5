"""Each network's gradients are only cleared after its own step, so the generator's backward pass leaves its traces in the discriminator."""
# source: https://github.com/Lightning-AI/pytorch-lightning/issues/591
# first effect: step 1
# names: 0.weight, 2.weight, zero_grad
# family: gradients
# detectable: yes the discriminator steps on gradients of a backward pass of another loss that was never cleared

import argparse

import torch
from torch import nn


class GAN:
    def __init__(self, fixed):
        self.fixed = fixed
        self.generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
        self.discriminator = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
        self.opt_g = torch.optim.Adam(self.generator.parameters(), lr=1e-3, betas=(0.5, 0.9))
        self.opt_d = torch.optim.Adam(self.discriminator.parameters(), lr=1e-3, betas=(0.5, 0.9))
        self.bce = nn.BCEWithLogitsLoss()

    def generator_step(self, n):
        fake = self.generator(torch.randn(n, 4))
        loss = self.bce(self.discriminator(fake), torch.ones(n, 1))
        loss.backward()
        self.opt_g.step()
        self.opt_g.zero_grad()
        return loss.item()

    def discriminator_step(self, real):
        if self.fixed:
            self.opt_d.zero_grad()
        fake = self.generator(torch.randn(len(real), 4)).detach()
        loss = self.bce(self.discriminator(real), torch.ones(len(real), 1))
        loss = loss + self.bce(self.discriminator(fake), torch.zeros(len(real), 1))
        loss.backward()
        self.opt_d.step()
        self.opt_d.zero_grad()
        return loss.item()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    gan = GAN(args.fixed)
    for it in range(args.steps):
        angle = 6.2832 * torch.rand(64)
        real = torch.stack([angle.cos(), angle.sin()], dim=1) + 0.05 * torch.randn(64, 2)
        g, d = gan.generator_step(64), gan.discriminator_step(real)
        if it % 10 == 0 or it == args.steps - 1:
            print(f"it {it} G {g:.3f} D {d:.3f}")
