"""Statistics are paused by setting the momentum to 0 with a backup; pausing twice in a row backs up the 0, and they stay paused."""
# source: https://github.com/mlcommons/algorithmic-efficiency/pull/783
# first effect: step 6
# names: BatchNorm1d, running_mean, running_var, momentum
# family: mode
# detectable: yes running statistics stop moving in training passes after they moved before

import argparse

import torch
from torch import nn


def build():
    return nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 1))


def update_batch_norm(model, update, fixed):
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d):
            if not update:
                if not (fixed and hasattr(module, "momentum_backup")):
                    module.momentum_backup = module.momentum
                module.momentum = 0.0
            elif hasattr(module, "momentum_backup"):
                module.momentum = module.momentum_backup


def loss_of(model, x, y, update, fixed):
    update_batch_norm(model, update, fixed)
    return nn.functional.mse_loss(model(x).squeeze(1), y)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--fixed", action="store_true")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--steps", type=int, default=36)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    x_eval = 2 + torch.randn(256, 8)
    y_eval = x_eval[:, 0] - x_eval[:, 1]
    for step in range(args.steps):
        x = 2 + torch.randn(64, 8)
        loss = loss_of(model, x, x[:, 0] - x[:, 1], True, args.fixed)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 6 == 5:
            # Two probes of the training loss that must leave the statistics alone.
            with torch.no_grad():
                probes = [loss_of(model, 2 + torch.randn(64, 8), torch.zeros(64), False, args.fixed) for _ in range(2)]
            model.eval()
            with torch.no_grad():
                val = nn.functional.mse_loss(model(x_eval).squeeze(1), y_eval)
            model.train()
            print(f"step {step} loss {loss.item():.3f} val {val.item():.3f} probe {probes[0].item():.3f}")


if __name__ == "__main__":
    main()
