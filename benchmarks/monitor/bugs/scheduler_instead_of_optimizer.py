"""With a scheduler configured, the loop steps the scheduler instead of the optimizer: nothing is ever trained."""
# source: https://github.com/ClementPinard/SfmLearner-Pytorch/issues/5
# first effect: step 0
# names: 0.weight, 2.weight, Adam, StepLR
# family: schedule
# detectable: yes backward passes come one after another and the optimizer that owns the weights never steps

import argparse

import torch
from torch import nn


def train(model, optimizer, scheduler, batches, fixed):
    for i, (left, right) in enumerate(batches):
        optimizer.zero_grad()
        loss = (model(left) - right).abs().mean()
        loss.backward()
        if fixed:
            optimizer.step()
        if scheduler:
            scheduler.step()
        elif not fixed:
            optimizer.step()
        if i % 5 == 0:
            print(f"batch {i} photometric loss {loss.item():.4f} lr {optimizer.param_groups[0]['lr']:.5f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--scheduler", default="step")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ELU(), nn.Conv2d(8, 1, 3, padding=1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10, gamma=0.5) if args.scheduler == "step" else None
    frames = [torch.rand(8, 1, 12, 12) for _ in range(args.steps)]
    train(model, optimizer, scheduler, [(f, f.roll(1, dims=-1)) for f in frames], args.fixed)


if __name__ == "__main__":
    main()
