"""A discriminator with spectral norm that is measured before its first step in training mode."""
# source: https://github.com/pytorch/pytorch/issues/51800
# first effect: step 0
# names: critic.0, critic.2, weight_v, eval
# family: init
# detectable: no an evaluation before training is allowed, and only its outputs are too large

import argparse

import torch
from torch import nn
from torch.nn.utils import spectral_norm
from torch.utils.data import DataLoader, TensorDataset

cli = argparse.ArgumentParser()
cli.add_argument("--fixed", action="store_true")
cli.add_argument("--seed", type=int, default=0)
cli.add_argument("--steps", type=int, default=24)
args = cli.parse_args()


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(
            spectral_norm(nn.Linear(30, 64)),
            nn.LeakyReLU(0.2),
            spectral_norm(nn.Linear(64, 64)),
            nn.LeakyReLU(0.2),
            nn.Linear(64, 1),
        )

    def forward(self, x):
        return self.critic(x).squeeze(1)


def measure(net, loader):
    net.eval()
    size = 0.0
    with torch.no_grad():
        for real, fake in loader:
            size = max(size, net(real).abs().max().item(), net(fake).abs().max().item())
    net.train()
    return size


torch.manual_seed(args.seed)
pairs = TensorDataset(torch.randn(16 * args.steps, 30).abs(), torch.randn(16 * args.steps, 30))
net = Discriminator()
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3, betas=(0.5, 0.9))
if args.fixed:
    with torch.no_grad():
        for _ in range(15):
            net(pairs.tensors[0][:1])  # in training mode, so that the power iteration starts
largest = measure(net, DataLoader(pairs, batch_size=64))
print(f"largest output before training {largest:.3f}")

for real, fake in DataLoader(pairs, batch_size=16, shuffle=True):
    loss = torch.relu(1 - net(real)).mean() + torch.relu(1 + net(fake)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}, largest output {measure(net, DataLoader(pairs, batch_size=64)):.3f}")
