"""A schedule that is told in epochs and stepped after every batch: the rates are nearly zero within two epochs."""
# source: https://github.com/leftthomas/SRGAN/issues/94
# first effect: step 10
# names: StepLR, lr
# family: schedule
# detectable: yes the rate falls to a ten-thousandth while most of the epochs are still to come

import argparse

import torch
from torch import nn

UPSCALE = 2


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.PReLU())
        self.residual = nn.Sequential(
            nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.PReLU(), nn.Conv2d(16, 16, 3, padding=1)
        )
        self.up = nn.Sequential(nn.Conv2d(16, 3 * UPSCALE**2, 3, padding=1), nn.PixelShuffle(UPSCALE))

    def forward(self, low):
        x = self.first(low)
        return torch.sigmoid(self.up(x + self.residual(x)))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(16, 32, 3, 2, 1), nn.LeakyReLU(0.2)
        )
        self.out = nn.Linear(32, 1)

    def forward(self, image):
        return torch.sigmoid(self.out(self.net(image).mean((2, 3)))).squeeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=80)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    per_epoch = 4
    epochs = args.steps // (2 * per_epoch)
    net_g, net_d = Generator(), Discriminator()
    optimizer_g, optimizer_d = torch.optim.Adam(net_g.parameters(), 1e-3), torch.optim.Adam(net_d.parameters(), 1e-3)
    schedulers = [torch.optim.lr_scheduler.StepLR(o, max(epochs // 2, 1), 0.1) for o in (optimizer_g, optimizer_d)]
    coarse = torch.rand(per_epoch * 8, 3, 4, 4)
    images = nn.functional.interpolate(coarse, 16, mode="bilinear") * 0.8 + 0.1
    for epoch in range(epochs):
        for high in images[torch.randperm(len(images))].split(8):
            low = nn.functional.avg_pool2d(high, UPSCALE)
            fake = net_g(low)
            optimizer_d.zero_grad()
            d_loss = 1 - net_d(high).mean() + net_d(fake.detach()).mean()
            d_loss.backward()
            optimizer_d.step()
            optimizer_g.zero_grad()
            g_loss = nn.functional.mse_loss(fake, high) + 1e-3 * (1 - net_d(fake)).mean()
            g_loss.backward()
            optimizer_g.step()
            if not args.fixed:
                for scheduler in schedulers:
                    scheduler.step()
        if args.fixed:
            for scheduler in schedulers:
                scheduler.step()
        print(f"[{epoch + 1}/{epochs}] d {d_loss.item():.4f} g {g_loss.item():.4f}")


if __name__ == "__main__":
    main()
