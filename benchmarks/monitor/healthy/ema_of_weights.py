"""An exponential moving average of the weights by hand, swapped in for evaluation and swapped out again."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class ExponentialMovingAverage:
    def __init__(self, parameters, decay):
        self.decay, self.num_updates = decay, 0
        self.shadow = [p.clone().detach() for p in parameters if p.requires_grad]
        self.collected = []

    @torch.no_grad()
    def update(self, parameters):
        self.num_updates += 1
        decay = min(self.decay, (1 + self.num_updates) / (10 + self.num_updates))
        for s, p in zip(self.shadow, [p for p in parameters if p.requires_grad]):
            s.sub_((1.0 - decay) * (s - p))

    def store(self, parameters):
        self.collected = [p.detach().clone() for p in parameters]

    @torch.no_grad()
    def copy_to(self, parameters):
        for s, p in zip(self.shadow, [p for p in parameters if p.requires_grad]):
            p.copy_(s)

    @torch.no_grad()
    def restore(self, parameters):
        for c, p in zip(self.collected, parameters):
            p.copy_(c)


parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--size", type=int, default=64)
parser.add_argument("--eval-every", type=int, default=20)
args = parser.parse_args()

torch.manual_seed(args.seed)
net = nn.Sequential(
    nn.Linear(2, args.size),
    nn.ReLU(),
    nn.Dropout(0.1),
    nn.Linear(args.size, args.size),
    nn.ReLU(),
    nn.Linear(args.size, 2),
)
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
ema = ExponentialMovingAverage(net.parameters(), decay=0.98)


def moons(n):
    t = torch.rand(n) * torch.pi
    y = torch.randint(0, 2, (n,))
    x = torch.stack([torch.cos(t), torch.sin(t)], 1)
    x = torch.where(y[:, None] == 0, x, torch.tensor([1.0, 0.5]) - x)
    return x + 0.1 * torch.randn(n, 2), y


val_x, val_y = moons(256)


@torch.no_grad()
def accuracy():
    net.eval()
    acc = (net(val_x).argmax(1) == val_y).float().mean().item()
    net.train()
    return acc


for step in range(1, args.steps + 1):
    x, y = moons(64)
    loss = F.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    ema.update(net.parameters())
    if step % args.eval_every == 0:
        raw = accuracy()
        ema.store(net.parameters())
        ema.copy_to(net.parameters())
        averaged = accuracy()
        ema.restore(net.parameters())
        print(f"step {step} loss {loss.item():.4f} acc {raw:.3f} with averaged weights {averaged:.3f}")
