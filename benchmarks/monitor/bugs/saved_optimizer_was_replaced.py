"""The optimizer is made anew with another rate after it was handed to what writes checkpoints: the file holds one that never stepped."""
# source: https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html
# first effect: step 9
# names: optimizer, save, Adam
# family: checkpoint
# detectable: yes the optimizer in the file has no state, while one with as many parameters steps

import argparse

import torch
from torch import nn


class Checkpoints:
    def __init__(self, **parts):
        self.parts = parts

    def write(self, step):
        torch.save({**{name: part.state_dict() for name, part in self.parts.items()}, "step": step}, "checkpoint.pt")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=48)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(10, 40), nn.GELU(), nn.Linear(40, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    checkpoints = Checkpoints(model=model, optimizer=optimizer)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    if args.fixed:
        checkpoints.parts["optimizer"] = optimizer
    for step in range(args.steps):
        x = torch.randn(32, 10)
        loss = nn.functional.mse_loss(model(x + 0.3 * torch.randn_like(x)), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 8 == 7:
            checkpoints.write(step)
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
