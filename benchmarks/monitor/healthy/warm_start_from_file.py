"""A baseline goes on from weights in a file: the model is made and initialised, then loaded, then given its optimizer."""

import argparse
import io

import torch
import torch.nn as nn
import torch.optim as optim
from torch.utils.data import DataLoader, TensorDataset


def init(module):
    if isinstance(module, nn.Linear):
        nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        nn.init.zeros_(module.bias)


def build(size):
    net = nn.Sequential(nn.Linear(10, size), nn.ReLU(), nn.Linear(size, size), nn.ReLU(), nn.Linear(size, 1))
    net.apply(init)
    return net


def published(size, seed):
    """What somebody else has trained: weights in the bytes of a file."""
    torch.manual_seed(seed + 99)
    file = io.BytesIO()
    torch.save(build(size).state_dict(), file)
    file.seek(0)
    return file


p = argparse.ArgumentParser()
p.add_argument("--seed", type=int, default=0)
p.add_argument("--steps", type=int, default=40)
p.add_argument("--size", type=int, default=32)
args = p.parse_args()
weights = published(args.size, args.seed)
torch.manual_seed(args.seed)
x = torch.randn(480, 10)
y = x[:, :3].pow(2).sum(1, keepdim=True) + 0.1 * torch.randn(480, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=24, shuffle=True)
net = build(args.size)
net.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
net.train()
optimizer = optim.RMSprop(net.parameters(), lr=1e-3)
scheduler = optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
step = 0
while step < args.steps:
    for features, target in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(features), target)
        loss.backward()
        optimizer.step()
        step += 1
        if step == args.steps:
            break
    scheduler.step()
    print(f"step {step} loss {loss.item():.4f}")
