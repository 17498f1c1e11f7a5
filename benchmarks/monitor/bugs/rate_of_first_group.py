"""The rate is set by hand on `param_groups[0]` alone: weights without decay go on with the rate they began with."""
# source: https://docs.pytorch.org/docs/stable/optim.html#per-parameter-options
# first effect: step 0
# names: optimizer0
# family: schedule
# detectable: yes of two groups that began with one rate only one follows the rate that changes at every step

import argparse
import math

import torch
from torch import nn


def rate_of(step, steps, peak):
    if step < 5:
        return peak * (step + 1) / 5
    return peak * 0.5 * (1 + math.cos(math.pi * (step - 5) / (steps - 5)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(12, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 4))
    decayed = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=5e-3
    )
    for step in range(args.steps):
        rate = rate_of(step, args.steps, 5e-3)
        if args.fixed:
            for group in optimizer.param_groups:
                group["lr"] = rate
        else:
            optimizer.param_groups[0]["lr"] = rate
        x = torch.randn(32, 12)
        loss = nn.functional.cross_entropy(model(x), x[:, :4].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(step, f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
