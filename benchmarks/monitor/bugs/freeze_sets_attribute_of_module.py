"""`module.requires_grad = False` only sets a new attribute of the module: the layer that should be frozen goes on training."""
# source: https://github.com/CSCYQJ/MICCAI23-ProtoContra-SFDA/issues/18
# first effect: step 0
# names: outc.weight, outc.bias, requires_grad
# family: optimizer
# detectable: no that the layer was meant to be frozen is only in the author's mind, apart from a stray attribute

import argparse

import torch
from torch import nn


class UNetLike(nn.Module):
    def __init__(self):
        super().__init__()
        self.inc = nn.Conv2d(1, 12, 3, padding=1)
        self.mid = nn.Conv2d(12, 12, 3, padding=1)
        self.outc = nn.Conv2d(12, 2, 1)

    def forward(self, x):
        return self.outc(torch.relu(self.mid(torch.relu(self.inc(x)))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=25)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = UNetLike()
    if args.fixed:
        model.outc.requires_grad_(False)
    else:
        model.outc.requires_grad = False
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for it in range(args.steps):
        image = torch.rand(8, 1, 16, 16)
        mask = (image[:, 0] > 0.6).long()
        loss = nn.functional.cross_entropy(model(image), mask)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if it % 6 == 0:
            print(f"it {it}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
