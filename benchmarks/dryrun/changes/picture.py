"""A residual network for pictures, SGD, rows drawn on the GPU."""

import torch
from torch import nn
from torch.nn import functional as F

rows = 32


class Block(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.one, self.two = nn.BatchNorm2d(after), nn.BatchNorm2d(after)
        same = before == after and stride == 1
        self.short = nn.Identity() if same else nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.one(self.first(x)))
        return F.relu(self.two(self.second(y)) + self.short(x))


def stage(before, after, stride):
    return nn.Sequential(Block(before, after, stride), Block(after, after, 1), Block(after, after, 1))


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        self.stages = nn.Sequential(stage(64, 64, 1), stage(64, 128, 2), stage(128, 256, 2))
        self.head = nn.Linear(256, 100)

    def forward(self, x):
        return self.head(self.stages(self.stem(x)).mean((2, 3)))


network = Network().to("cuda")
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
for _ in range(6):
    pictures = torch.randn(rows, 3, 32, 32, device="cuda")
    labels = torch.randint(0, 100, (rows,), device="cuda")
    optimizer.zero_grad()
    loss = criterion(network(pictures), labels)
    loss.backward()
    optimizer.step()
