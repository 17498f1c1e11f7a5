"""A second adapter is skipped because one of its name is there already, and stays frozen: only the head of the model learns."""
# source: https://github.com/X-GenGroup/Flow-Factory/pull/56
# first effect: step 0
# names: down, up
# family: optimizer
# detectable: yes the optimizer is given parameters that need no gradient and never get one

import argparse

import torch
from torch import nn
from torch.nn import functional as F


class Adapted(nn.Module):
    def __init__(self, inner, rank=4):
        super().__init__()
        self.inner = inner.requires_grad_(False)
        self.down = nn.Linear(inner.in_features, rank, bias=False)
        self.up = nn.Linear(rank, inner.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.inner(x) + self.up(self.down(x))

    def fuse(self):
        with torch.no_grad():
            self.inner.weight += self.up.weight @ self.down.weight
            self.up.weight.zero_()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Adapted(nn.Linear(8, 32))
        self.second = Adapted(nn.Linear(32, 32))
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        return self.head(F.gelu(self.second(F.gelu(self.first(x)))))


def apply_adapter(model, fixed):
    for part in (model.first, model.second):
        part.requires_grad_(False)
        part.fuse()
        if hasattr(part, "down") and not fixed:
            continue
        part.down.requires_grad_(True)
        part.up.requires_grad_(True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Model()
    apply_adapter(model, args.fixed)
    adapters = [p for name, p in model.named_parameters() if ".down." in name or ".up." in name]
    optimizer = torch.optim.AdamW([{"params": adapters, "lr": 1e-2}, {"params": model.head.parameters(), "lr": 1e-3}])
    rule = torch.randn(8, 4)
    for step in range(args.steps):
        x = torch.randn(32, 8)
        loss = F.cross_entropy(model(x), (x @ rule).argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 6 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
