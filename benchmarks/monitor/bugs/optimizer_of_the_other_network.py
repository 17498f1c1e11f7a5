"""The discriminator's optimizer was made from the generator's parameters: it trains the generator against itself, and the discriminator never moves."""
# source: https://github.com/zhaoyuzhi/deepfillv2/pull/3
# first effect: step 0
# names: net.0.weight, net.3.weight, PatchDiscriminator, Adam
# family: optimizer
# detectable: yes the discriminator receives gradients and no optimizer owns it, and two optimizers own the generator

import argparse

import torch
import torch.nn as nn


class GatedGenerator(nn.Module):
    def __init__(self):
        super().__init__()
        self.feature = nn.Conv2d(2, 12, 3, padding=1)
        self.gate = nn.Conv2d(2, 12, 3, padding=1)
        self.out = nn.Conv2d(12, 1, 3, padding=1)

    def forward(self, image, mask):
        x = torch.cat([image * (1 - mask), mask], dim=1)
        return self.out(torch.relu(self.feature(x)) * torch.sigmoid(self.gate(x)))


class PatchDiscriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 8, 3, stride=2), nn.LeakyReLU(0.2), nn.Dropout2d(0.1), nn.Conv2d(8, 1, 3))

    def forward(self, x):
        return self.net(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    opt = parser.parse_args()
    torch.manual_seed(opt.seed)
    generator, discriminator = GatedGenerator(), PatchDiscriminator()
    optimizer_g = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
    trained = discriminator if opt.fixed else generator
    optimizer_d = torch.optim.Adam(trained.parameters(), lr=2e-3, betas=(0.5, 0.999))
    mask = torch.zeros(8, 1, 12, 12)
    mask[:, :, 4:8, 4:8] = 1
    for batch in range(opt.steps):
        image = nn.functional.interpolate(torch.rand(8, 1, 3, 3), size=12, mode="bilinear")
        optimizer_d.zero_grad()
        discriminator.zero_grad()
        fake = generator(image, mask)
        loss_d = torch.relu(1 - discriminator(image)).mean() + torch.relu(1 + discriminator(fake)).mean()
        loss_d.backward()
        optimizer_d.step()
        optimizer_g.zero_grad()
        fake = generator(image, mask)
        loss_g = (fake - image).abs().mean() - 0.05 * discriminator(fake).mean()
        loss_g.backward()
        optimizer_g.step()
        if batch % 4 == 0:
            print(f"batch {batch} D {loss_d.item():.4f} G {loss_g.item():.4f}")


if __name__ == "__main__":
    main()
