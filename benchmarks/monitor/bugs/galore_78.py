"""Each layer has an optimizer of its own that steps in a hook, at every micro-batch of an accumulation."""
# source: https://github.com/jiaweizzhao/GaLore/issues/78
# first effect: step 0
# names: hook
# family: gradients
# detectable: no that four passes were meant to be one step is said by the program only

import argparse

import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=12)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(12, 40), nn.Tanh(), nn.Linear(40, 3))
    optimizers = {p: torch.optim.Adam([p], lr=1e-3) for p in model.parameters()}
    passes = 0

    def hook(p):
        if args.fixed and (passes + 1) % 4:
            return
        optimizers[p].step()
        optimizers[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(hook)
    for step in range(args.steps):
        total = 0.0
        for _ in range(4):
            x = torch.randn(8, 12)
            loss = nn.functional.cross_entropy(model(x), x[:, :3].argmax(dim=1)) / 4
            loss.backward()
            passes += 1
            total += loss.item()
        if step % 3 == 0:
            print(f"step {step} loss {total:.4f}")


if __name__ == "__main__":
    main()
