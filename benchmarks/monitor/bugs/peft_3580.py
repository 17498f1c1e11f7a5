"""A second adapter is loaded to be trained, and the flag reaches the first one: the one that was to rest is trained."""
# source: https://github.com/huggingface/peft/issues/3580
# first effect: step 0
# names: first, other
# family: optimizer
# detectable: no which of two adapters was meant to be trained is nowhere but in the argument of the program's own function

import argparse

import torch
from torch import nn


class Adapted(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.base = nn.Linear(inside, outside).requires_grad_(False)
        self.down, self.up = nn.ModuleDict(), nn.ModuleDict()
        self.active = ""

    def add(self, name, trainable, fixed):
        self.down[name] = nn.Linear(self.base.in_features, 4, bias=False).requires_grad_(False)
        self.up[name] = nn.Linear(4, self.base.out_features, bias=False).requires_grad_(False)
        nn.init.normal_(self.up[name].weight, std=0.02)
        self.active = self.active or name
        if trainable:
            chosen = name if fixed else self.active
            self.down[chosen].requires_grad_(True)
            self.up[chosen].requires_grad_(True)

    def forward(self, x):
        return self.base(x) + sum(self.up[name](self.down[name](x)) for name in self.down)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = nn.Sequential(Adapted(16, 32), nn.ReLU(), Adapted(32, 4))
    for name, trainable in (("first", False), ("other", True)):
        for layer in (model[0], model[2]):
            layer.add(name, trainable, args.fixed)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-3)
    truth = torch.randn(16, 4)
    for step in range(args.steps):
        x = torch.randn(32, 16)
        loss = nn.functional.mse_loss(model(x), x @ truth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 8 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
