"""Monte Carlo dropout: trained plainly, then evaluated many times with only the dropout layers switched on, for a spread of predictions."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--size", type=int, default=48)
args = parser.parse_args()
torch.manual_seed(args.seed)

net = nn.Sequential(
    nn.Linear(1, args.size),
    nn.ReLU(),
    nn.Dropout(0.1),
    nn.Linear(args.size, args.size),
    nn.ReLU(),
    nn.Dropout(0.1),
    nn.Linear(args.size, 1),
)
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3, weight_decay=1e-5)
grid = torch.linspace(-6, 6, 32)[:, None]


@torch.no_grad()
def spread(samples=12):
    net.eval()
    for part in net:
        if isinstance(part, nn.Dropout):
            part.train()
    drawn = torch.stack([net(grid) for _ in range(samples)])
    net.train()
    return drawn.std(0).mean().item()


for step in range(args.steps):
    x = 6 * torch.rand(64, 1) - 3
    loss = nn.functional.mse_loss(net(x), x.sin() + 0.1 * torch.randn_like(x))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 19:
        print(f"step {step} loss {loss.item():.4f} spread {spread():.4f}")
