"""The label tensor is not filled anew before the discriminator's loss of made samples, so it is told that all are real."""
# source: https://docs.pytorch.org/tutorials/beginner/dcgan_faces_tutorial.html
# first effect: step 0
# names: discriminator, binary_cross_entropy
# family: loss
# detectable: yes a network through which another is trained is given one label for all samples

import argparse

import torch
import torch.nn as nn


def maker(noise=12, width=48, out=6):
    return nn.Sequential(nn.Linear(noise, width), nn.ReLU(), nn.Linear(width, out))


def judge(width=48, out=6):
    return nn.Sequential(nn.Linear(out, width), nn.LeakyReLU(0.2), nn.Linear(width, 1), nn.Sigmoid())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    generator, discriminator = maker(), judge()
    criterion = nn.BCELoss()
    optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=3e-4, betas=(0.5, 0.999))
    optimizer_g = torch.optim.Adam(generator.parameters(), lr=3e-4, betas=(0.5, 0.999))
    for step in range(args.steps // 2):
        discriminator.zero_grad()
        real = 0.4 * torch.randn(24, 6) + torch.tensor([1.0, -1.0, 0.5, 0.0, 2.0, -0.5])
        label = torch.full((24,), 1.0)
        error_real = criterion(discriminator(real).view(-1), label)
        error_real.backward()
        fake = generator(torch.randn(24, 12))
        if args.fixed:
            label.fill_(0.0)
        error_fake = criterion(discriminator(fake.detach()).view(-1), label)
        error_fake.backward()
        optimizer_d.step()
        generator.zero_grad()
        label.fill_(1.0)
        error_g = criterion(discriminator(fake).view(-1), label)
        error_g.backward()
        optimizer_g.step()
        if step % 10 == 0:
            print(f"{step}: D {error_real.item() + error_fake.item():.3f}, G {error_g.item():.3f}")


if __name__ == "__main__":
    main()
