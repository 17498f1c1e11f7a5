"""DCGAN on synthetic blobs: two Adam optimizers, the discriminator is stepped twice for each step of the generator."""

import argparse

import torch
import torch.nn as nn

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=999)
parser.add_argument("--steps", type=int, default=40, help="steps of the generator")
parser.add_argument("--size", type=int, default=8, help="ngf and ndf")
parser.add_argument("--d-steps", type=int, default=2)
opt = parser.parse_args()
torch.manual_seed(opt.seed)

nz, ngf, ndf, bs = 16, opt.size, opt.size, 16
real_label, fake_label = 1.0, 0.0


def weights_init(m):
    name = m.__class__.__name__
    if name.find("Conv") != -1:
        nn.init.normal_(m.weight, 0.0, 0.02)
    elif name.find("BatchNorm") != -1:
        nn.init.normal_(m.weight, 1.0, 0.02)
        nn.init.zeros_(m.bias)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(nz, ngf * 2, 4, 1, 0, bias=False),
            nn.BatchNorm2d(ngf * 2),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf * 2, ngf, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ngf),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf, 1, 4, 2, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, z):
        return self.main(z)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(1, ndf, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf, ndf * 2, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ndf * 2),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf * 2, 1, 4, 1, 0, bias=False),
        )

    def forward(self, x):
        return self.main(x).view(-1)


def sample_real(n):
    grid = torch.linspace(-1, 1, 16)
    cx, cy = torch.rand(2, n, 1, 1) - 0.5
    d2 = (grid.view(1, 1, 16) - cx) ** 2 + (grid.view(1, 16, 1) - cy) ** 2
    return (2 * torch.exp(-8 * d2) - 1).unsqueeze(1)


netG, netD = Generator(), Discriminator()
netG.apply(weights_init)
netD.apply(weights_init)
criterion = nn.BCEWithLogitsLoss()
fixed_noise = torch.randn(16, nz, 1, 1)
optimizerD = torch.optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
optimizerG = torch.optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))

for i in range(opt.steps):
    for _ in range(opt.d_steps):
        netD.zero_grad()
        real = sample_real(bs)
        errD_real = criterion(netD(real), torch.full((bs,), real_label))
        errD_real.backward()
        fake = netG(torch.randn(bs, nz, 1, 1))
        errD_fake = criterion(netD(fake.detach()), torch.full((bs,), fake_label))
        errD_fake.backward()
        optimizerD.step()

    netG.zero_grad()
    fake = netG(torch.randn(bs, nz, 1, 1))
    errG = criterion(netD(fake), torch.full((bs,), real_label))
    errG.backward()
    optimizerG.step()

    if i % 10 == 0:
        print(f"[{i}/{opt.steps}] Loss_D: {(errD_real + errD_fake).item():.4f} Loss_G: {errG.item():.4f}")
        netG.eval()
        with torch.no_grad():
            samples = netG(fixed_noise)
        netG.train()
        print(f"    samples mean {samples.mean():.3f} std {samples.std():.3f}")
