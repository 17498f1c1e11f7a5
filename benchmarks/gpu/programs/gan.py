"""A DCGAN of 64 x 64 pictures in fp32: batches of 128, two optimizers."""

import torch
from torch import nn

WIDTH = 128


def up(inside, outside):
    return [nn.ConvTranspose2d(inside, outside, 4, 2, 1, bias=False), nn.BatchNorm2d(outside), nn.ReLU(True)]


def down(inside, outside):
    return [nn.Conv2d(inside, outside, 4, 2, 1, bias=False), nn.BatchNorm2d(outside), nn.LeakyReLU(0.2, inplace=True)]


torch.manual_seed(0)
device = torch.device("cuda")
generator = nn.Sequential(
    nn.ConvTranspose2d(100, WIDTH * 8, 4, 1, 0, bias=False),
    nn.BatchNorm2d(WIDTH * 8),
    nn.ReLU(True),
    *up(WIDTH * 8, WIDTH * 4),
    *up(WIDTH * 4, WIDTH * 2),
    *up(WIDTH * 2, WIDTH),
    nn.ConvTranspose2d(WIDTH, 3, 4, 2, 1, bias=False),
    nn.Tanh(),
).to(device)
critic = nn.Sequential(
    nn.Conv2d(3, WIDTH, 4, 2, 1, bias=False),
    nn.LeakyReLU(0.2, inplace=True),
    *down(WIDTH, WIDTH * 2),
    *down(WIDTH * 2, WIDTH * 4),
    *down(WIDTH * 4, WIDTH * 8),
    nn.Conv2d(WIDTH * 8, 1, 4, 1, 0, bias=False),
).to(device)
criterion = nn.BCEWithLogitsLoss()
optimizer_g = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
optimizer_d = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))

for step in range(12):
    real = torch.rand(128, 3, 64, 64, device=device) * 2 - 1
    fake = generator(torch.randn(128, 100, 1, 1, device=device))
    optimizer_d.zero_grad()
    ones, zeros = torch.ones(128, device=device), torch.zeros(128, device=device)
    loss_d = criterion(critic(real).flatten(), ones) + criterion(critic(fake.detach()).flatten(), zeros)
    loss_d.backward()
    optimizer_d.step()
    optimizer_g.zero_grad()
    loss_g = criterion(critic(fake).flatten(), ones)
    loss_g.backward()
    optimizer_g.step()
print(f"losses {loss_d.item():.3f} {loss_g.item():.3f}")
