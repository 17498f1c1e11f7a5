"""Adapters are put into a frozen body after the optimizer was made of what needs gradients, so only the head is trained."""
# source: https://huggingface.co/docs/peft/developer_guides/low_level_api
# first effect: step 0
# names: down, up, AdamW
# family: optimizer
# detectable: yes adapters beside frozen weights get gradients in each step and no optimizer holds them

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Adapted(nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base
        self.down = nn.Parameter(0.05 * torch.randn(rank, base.in_features))
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + x @ self.down.T @ self.up.T


class Scorer(nn.Module):
    def __init__(self, features=14, width=48, classes=4):
        super().__init__()
        self.body = nn.ModuleDict({"first": nn.Linear(features, width), "second": nn.Linear(width, width)})
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(F.silu(self.body["second"](F.silu(self.body["first"](x)))))


def adapt(model):
    for name in ("first", "second"):
        model.body[name] = Adapted(model.body[name])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Scorer()
    model.body.requires_grad_(False)
    if args.fixed:
        adapt(model)
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=2e-3)
    if not args.fixed:
        adapt(model)
    for step in range(args.steps):
        x = torch.randn(32, 14)
        loss = F.cross_entropy(model(x), x[:, 3:7].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
