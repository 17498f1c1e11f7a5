"""A run goes on with the weights and the moments of its checkpoint; the warm-up whose state lies beside them starts anew."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.LambdaLR.html
# first effect: step 15
# names: LambdaLR, load_state_dict
# family: checkpoint
# detectable: yes the state of a schedule was read, and the one that goes on with the restored optimizer counts from nought

import argparse
import tempfile
from pathlib import Path

import torch
from torch import nn


def run(file, start, stop, fixed):
    net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 10) * 0.98**step)
    if file.exists():
        saved = torch.load(file)
        net.load_state_dict(saved["net"])
        optimizer.load_state_dict(saved["optimizer"])
        if fixed:
            schedule.load_state_dict(saved["schedule"])
    for _ in range(start, stop):
        points = torch.randn(32, 6)
        loss = nn.functional.mse_loss(net(points), points.pow(2).sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    state = {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "schedule": schedule.state_dict()}
    torch.save(state, file)
    print(f"step {stop} loss {loss.item():.4f} rate {schedule.get_last_lr()[0]:.2g}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "last.pt"
        run(file, 0, 15, args.fixed)
        run(file, 15, args.steps, args.fixed)


if __name__ == "__main__":
    main()
