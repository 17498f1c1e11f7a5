"""Multi-task learning with a shared trunk and learned uncertainty weights; a bad batch for one task is masked out."""

import argparse

import torch
import torch.nn as nn


class SharedNet(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(10, d), nn.Mish(), nn.Linear(d, d), nn.Mish())
        self.depth_head = nn.Linear(d, 1)
        self.label_head = nn.Linear(d, 4)
        self.log_vars = nn.Parameter(torch.zeros(2))

    def forward(self, x):
        h = self.trunk(x)
        return self.depth_head(h).squeeze(1), self.label_head(h)


def weighted(losses, log_vars):
    return sum(torch.exp(-s) * l + s for l, s in zip(losses, log_vars)) / 2


parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=23)
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--size", type=int, default=32)
args = parser.parse_args()
torch.manual_seed(args.seed)

model = SharedNet(args.size)
optimizer = torch.optim.AdamW(
    [
        {"params": model.trunk.parameters()},
        {"params": [*model.depth_head.parameters(), *model.label_head.parameters()], "lr": 6e-3},
        {"params": [model.log_vars], "lr": 2e-2, "weight_decay": 0.0},
    ],
    lr=3e-3,
    weight_decay=1e-2,
)
mix = torch.randn(10, 4)
ce, sl1 = nn.CrossEntropyLoss(ignore_index=-1), nn.SmoothL1Loss()
for step in range(args.steps):
    x = torch.randn(40, 10)
    depth = x[:, 0].abs() + 0.3 * x[:, 1]
    label = (x @ mix).argmax(1)
    label[torch.rand(40) < 0.3] = -1  # three in ten samples carry no label
    d, c = model(x)
    losses = sl1(d, depth), ce(c, label)
    total = weighted(losses, model.log_vars)
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
    if step % 12 == 0:
        print(
            f"{step:3d} depth {losses[0].item():.4f} label {losses[1].item():.4f} weights {torch.exp(-model.log_vars).tolist()}"
        )
