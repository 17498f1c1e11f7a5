"""A GAN that clears the generator's gradients and never the discriminator's."""
# source: https://github.com/Adversarial-Deep-Learning/code-soup/issues/69
# first effect: step 2
# names: discriminator
# family: gradients
# detectable: yes the discriminator's gradients are not cleared between two of its steps

import argparse

import torch
from torch import nn


class Gan:
    def __init__(self, fixed):
        self.fixed = fixed
        self.generator = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 12))
        self.discriminator = nn.Sequential(nn.Linear(12, 48), nn.LeakyReLU(0.2), nn.Linear(48, 1))
        self.of_g = torch.optim.Adam(self.generator.parameters(), lr=1e-3)
        self.of_d = torch.optim.Adam(self.discriminator.parameters(), lr=1e-3)
        self.judge = nn.BCEWithLogitsLoss()

    def step(self, real):
        ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
        if self.fixed:
            self.discriminator.zero_grad()
        of_real = self.judge(self.discriminator(real), ones)
        of_real.backward()
        fake = self.generator(torch.randn(len(real), 6))
        of_fake = self.judge(self.discriminator(fake.detach()), zeros)
        of_fake.backward()
        self.of_d.step()
        self.generator.zero_grad()
        fooled = self.judge(self.discriminator(fake), ones)
        fooled.backward()
        self.of_g.step()
        return of_real.item() + of_fake.item(), fooled.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    gan = Gan(args.fixed)
    mixing = torch.randn(3, 12)
    for step in range(args.steps // 2):
        apart, fooled = gan.step(torch.tanh(torch.randn(24, 3) @ mixing))
        if step % 4 == 0:
            print(f"step {step} discriminator {apart:.4f} generator {fooled:.4f}")


if __name__ == "__main__":
    main()
