"""The second stage of a detector: the first is frozen, and its normalisation is, too, in two dimensions but not in one."""
# source: https://github.com/tianweiy/CenterPoint/issues/168
# first effect: step 0
# names: reader
# family: mode
# detectable: yes the statistics of one normalisation of a frozen network move and those of the others do not

import argparse
import io

import torch
from torch import nn
from torch.nn import functional as F


class FrozenBatchNorm2d(nn.Module):
    def __init__(self, norm):
        super().__init__()
        scale = norm.weight.data / torch.sqrt(norm.running_var + norm.eps)
        self.register_buffer("scale", scale.view(1, -1, 1, 1))
        self.register_buffer("shift", (norm.bias.data - norm.running_mean * scale).view(1, -1, 1, 1))

    def forward(self, x):
        return x * self.scale + self.shift


class SingleStage(nn.Module):
    def __init__(self):
        super().__init__()
        self.reader = nn.ModuleDict({"linear": nn.Linear(4, 16, bias=False), "norm": nn.BatchNorm1d(16)})
        self.neck = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.head = nn.Conv2d(16, 1, 1)

    def features(self, points):
        pillars = F.relu(self.reader["norm"](self.reader["linear"](points.flatten(0, 1))))
        return self.neck(pillars.view(points.shape[0], 8, 8, 16).permute(0, 3, 1, 2))

    def forward(self, points):
        return self.head(self.features(points))

    def freeze(self, fixed):
        for parameter in self.parameters():
            parameter.requires_grad = False
        self.neck[1] = FrozenBatchNorm2d(self.neck[1])
        if fixed:
            self.reader["norm"].eval()
        return self


class SecondStage(nn.Module):
    def __init__(self, first):
        super().__init__()
        self.first = first
        self.roi = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 3))

    def forward(self, points):
        with torch.no_grad():
            features = self.first.features(points)
        return self.roi(features.amax((2, 3)))


def scene(count):
    points = torch.randn(count, 64, 4) * 3
    size = points[:, :8].abs().mean((1, 2))
    return points, torch.stack([size, size * 0.5, size + 1], 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    trained, file = SingleStage(), io.BytesIO()
    trained.reader["norm"].running_mean.normal_(0, 0.3)
    trained.reader["norm"].running_var.uniform_(1, 4)
    torch.save(trained.state_dict(), file)
    file.seek(0)
    first = SingleStage()
    first.load_state_dict(torch.load(file))
    model = SecondStage(first.freeze(args.fixed))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-3)
    for step in range(args.steps):
        points, boxes = scene(8)
        loss = F.smooth_l1_loss(model(points), boxes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            print(f"step {step + 1}: {loss.item():.4f}, statistics {first.reader['norm'].running_mean.norm():.3f}")


if __name__ == "__main__":
    main()
