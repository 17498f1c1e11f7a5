"""The averaged weights are copied into the model for the validation and the trained ones are not put back: training goes on from the average."""
# source: https://github.com/PKU-YuanGroup/Open-Sora-Plan/issues/186
# first effect: step 10
# names: encoder, head, copy_
# family: other
# detectable: yes the weights change between two steps by another hand than the optimizer's, and stay changed

import argparse

import torch
from torch import nn
from torch.nn import functional as F


class Average:
    def __init__(self, parameters):
        self.shadow = [one.detach().clone() for one in parameters]
        self.kept = []

    def step(self, parameters):
        for shadow, one in zip(self.shadow, parameters, strict=True):
            shadow.lerp_(one.detach(), 0.05)

    def store(self, parameters):
        self.kept = [one.detach().clone() for one in parameters]

    def copy_to(self, parameters):
        for shadow, one in zip(self.shadow, parameters, strict=True):
            one.data.copy_(shadow)

    def restore(self, parameters):
        for kept, one in zip(self.kept, parameters, strict=True):
            one.data.copy_(kept)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 32), nn.Tanh())
        self.head = nn.Linear(32, 3)

    def forward(self, x):
        return self.head(self.encoder(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    average = Average(model.parameters())
    rule = torch.randn(6, 3)
    for step in range(args.steps):
        x = torch.randn(32, 6)
        loss = F.cross_entropy(model(x), (x @ rule).argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.step(model.parameters())
        if step % 10 == 9:
            average.store(model.parameters())
            average.copy_to(model.parameters())
            model.eval()
            with torch.no_grad():
                x = torch.randn(64, 6)
                right = (model(x).argmax(1) == (x @ rule).argmax(1)).float().mean()
            model.train()
            if args.fixed:
                average.restore(model.parameters())
            print(f"step {step} loss {loss.item():.4f} validated {right.item():.2f}")


if __name__ == "__main__":
    main()
