"""A copied line: both schedules of a GAN steer the generator's optimizer, and the discriminator's rate stays as it was."""
# source: https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate
# first effect: step 8
# names: ExponentialLR, optimizer0
# family: schedule
# detectable: yes two schedules of one kind go on in turns over one optimizer, and another optimizer has none

import argparse

import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    generator = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
    discriminator = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    opt_g = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
    opt_d = torch.optim.Adam(discriminator.parameters(), lr=1e-3, betas=(0.5, 0.999))
    sched_g = torch.optim.lr_scheduler.ExponentialLR(opt_g, gamma=0.8)
    sched_d = torch.optim.lr_scheduler.ExponentialLR(opt_d if args.fixed else opt_g, gamma=0.8)
    bce = nn.BCEWithLogitsLoss()
    ones, zeros = torch.ones(32, 1), torch.zeros(32, 1)
    for epoch in range(args.steps // 8):
        for _ in range(4):
            real = torch.randn(32, 2) * 0.3 + torch.tensor([1.0, -1.0])
            fake = generator(torch.randn(32, 8))
            opt_d.zero_grad()
            loss_d = bce(discriminator(real), ones) + bce(discriminator(fake.detach()), zeros)
            loss_d.backward()
            opt_d.step()
            opt_g.zero_grad()
            loss_g = bce(discriminator(fake), ones)
            loss_g.backward()
            opt_g.step()
        sched_g.step()
        sched_d.step()
        print(f"epoch {epoch} d {loss_d.item():.4f} g {loss_g.item():.4f}")


if __name__ == "__main__":
    main()
