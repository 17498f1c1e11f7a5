"""The factor of a warm-up is not held at one when it is over: the rate grows for ever."""
# source: https://github.com/Adit-Jain-srm/NightmareNet/pull/158
# first effect: step 5
# names: LambdaLR, lr
# family: schedule
# detectable: no a rate that grows linearly may be meant to

import argparse

import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    warmup_steps = 5
    model = nn.Sequential(nn.Linear(12, 40), nn.ReLU(), nn.Linear(40, 12))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    def warmup(step):
        factor = (step + 1) / warmup_steps
        return min(1.0, factor) if args.fixed else factor

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, warmup)
    for step in range(args.steps):
        x = torch.randn(32, 12)
        loss = nn.functional.mse_loss(model(x), x.cumsum(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        if step % 8 == 0:
            print(f"step {step} loss {loss.item():.4f} lr {scheduler.get_last_lr()[0]:.5f}")


if __name__ == "__main__":
    main()
