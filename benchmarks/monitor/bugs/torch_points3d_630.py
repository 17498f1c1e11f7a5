"""A resumed run that restores the optimizer first and then makes its scheduler, which sets the rate back."""
# source: https://github.com/torch-points3d/torch-points3d/pull/630
# first effect: step 15
# names: lr, LambdaLR
# family: schedule
# detectable: yes the rate after a restore is not the rate that was saved

import argparse
import io

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR


class Points(nn.Module):
    def __init__(self):
        super().__init__()
        self.local = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 32))
        self.whole = nn.Linear(32, 4)

    def forward(self, cloud):
        return self.whole(self.local(cloud).amax(dim=1))


def build():
    model = Points()
    return model, torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)


def decay(epoch):
    return 0.5**epoch


def clouds():
    kind = torch.randint(0, 4, (16,))
    cloud = torch.randn(16, 40, 3) * torch.stack([kind + 1.0, 4.0 - kind, kind * 0.5 + 1], dim=1)[:, None]
    return cloud, kind


def train(model, optimizer, scheduler, first, last):
    for step in range(first, last):
        cloud, kind = clouds()
        loss = nn.functional.cross_entropy(model(cloud), kind)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 4:
            scheduler.step()
            print(f"step {step} loss {loss.item():.4f} rate {optimizer.param_groups[0]['lr']:.5f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    half = args.steps // 2

    torch.manual_seed(args.seed)
    model, optimizer = build()
    scheduler = LambdaLR(optimizer, decay)
    train(model, optimizer, scheduler, 0, half)
    file = io.BytesIO()
    torch.save(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "sched": scheduler.state_dict()}, file
    )
    file.seek(0)

    saved = torch.load(file)
    model, optimizer = build()
    model.load_state_dict(saved["model"])
    if not args.fixed:
        optimizer.load_state_dict(saved["optimizer"])
    scheduler = LambdaLR(optimizer, decay)
    scheduler.load_state_dict(saved["sched"])
    if args.fixed:
        optimizer.load_state_dict(saved["optimizer"])
    train(model, optimizer, scheduler, half, args.steps)


if __name__ == "__main__":
    main()
