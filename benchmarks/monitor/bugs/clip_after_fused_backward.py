"""The optimizer steps inside the backward pass and frees each gradient at once; the clip that follows finds nothing."""
# source: https://github.com/pytorch/torchtitan/issues/990
# first effect: step 0
# names: clip_grad_norm_, register_post_accumulate_grad_hook
# family: clipping
# detectable: yes clipping is called when no parameter has a gradient any more

import argparse

import torch
from torch import nn


class OptimizersInBackward:
    """One optimizer for each parameter, which steps as soon as its gradient is complete."""

    def __init__(self, model, lr):
        self.optimizers = {p: torch.optim.SGD([p], lr=lr) for p in model.parameters()}
        for p in model.parameters():
            p.register_post_accumulate_grad_hook(self.hook)

    def hook(self, param):
        self.optimizers[param].step()
        self.optimizers[param].zero_grad()

    def step(self):
        pass

    def zero_grad(self):
        pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(16, 64), nn.SiLU(), nn.Linear(64, 16))
    if args.fixed:
        optimizers = torch.optim.SGD(model.parameters(), lr=0.05)
    else:
        optimizers = OptimizersInBackward(model, lr=0.05)
    mix = torch.randn(16, 16)
    for step in range(args.steps):
        x = torch.randn(48, 16)
        loss = (model(x) - x @ mix).pow(2).sum(1).mean()
        optimizers.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizers.step()
        if step % 4 == 0:
            print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
