"""Loaded adapters are frozen, the loss needs no gradient, and a line that sets `loss.requires_grad` hides the complaint."""
# source: https://github.com/ludwig-ai/ludwig/pull/3572
# first effect: step 0
# names: step, backward, down, up, model
# family: gradients
# detectable: yes backward passes and steps go on while no parameter ever gets a gradient

import argparse
import contextlib

import torch
from torch import nn
from torch.nn import functional as F


class Adapted(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(10, 10).requires_grad_(False)
        self.down = nn.Linear(10, 3, bias=False)
        self.up = nn.Linear(3, 10, bias=False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))

    def load_adapter(self, state, trainable):
        self.load_state_dict(state, strict=False)
        for part in (self.down, self.up):
            part.requires_grad_(trainable)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Adapted()
    state = {"down.weight": torch.randn(3, 10) * 0.1, "up.weight": torch.randn(10, 3) * 0.1}
    model.load_adapter(state, trainable=args.fixed)
    optimizer = torch.optim.Adam([*model.down.parameters(), *model.up.parameters()], lr=1e-2)
    rule = torch.randn(10, 10)
    for step in range(args.steps):
        x = torch.randn(32, 10)
        loss = F.mse_loss(model(x), x @ rule)
        with contextlib.suppress(RuntimeError):
            loss.requires_grad = True
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 6 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
