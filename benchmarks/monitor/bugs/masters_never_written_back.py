"""Weights in half precision get their gradients, copies of them in full precision are trained, and these are never written back."""
# source: https://docs.nvidia.com/deeplearning/performance/mixed-precision-training/index.html
# first effect: step 1
# names: model, masters
# family: precision
# detectable: yes all parameters of the model get gradients and rest, while tensors of their shapes are trained

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, features=10, classes=3):
        super().__init__()
        self.lower, self.upper = nn.Linear(features, 56), nn.Linear(56, classes)

    def forward(self, x):
        return self.upper(F.relu(self.lower(x)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Net().to(torch.bfloat16)
    masters = [one.detach().clone().float().requires_grad_() for one in model.parameters()]
    optimizer = torch.optim.Adam(masters, lr=2e-3)
    for step in range(args.steps):
        x = torch.randn(48, 10)
        loss = F.cross_entropy(model(x.to(torch.bfloat16)).float(), x[:, :3].argmax(1))
        model.zero_grad()
        loss.backward()
        for master, own in zip(masters, model.parameters(), strict=True):
            master.grad = own.grad.float()
        optimizer.step()
        if args.fixed:
            with torch.no_grad():
                for master, own in zip(masters, model.parameters(), strict=True):
                    own.copy_(master)
        if step % 10 == 0:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
