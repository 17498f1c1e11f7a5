"""A custom autograd.Function (a smooth clamp with its own backward, checked by gradcheck first) and a binarised layer."""

import argparse

import torch
from torch import nn


class SmoothClamp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, limit):
        y = torch.tanh(x / limit)
        ctx.save_for_backward(y)
        return limit * y

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return grad_output * (1 - y * y), None


class Binarize(torch.autograd.Function):
    """Sign forward, straight through backward where |x| <= 1."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x >= 0, 1.0, -1.0)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * (x.abs() <= 1)


class BinaryLinear(nn.Linear):
    def forward(self, x):
        scale = self.weight.abs().mean(1, keepdim=True)
        return nn.functional.linear(x, Binarize.apply(self.weight) * scale, self.bias)


class Net(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(10, d), BinaryLinear(d, d), nn.Linear(d, 3)

    def forward(self, x):
        x = SmoothClamp.apply(self.a(x), 2.0)
        return self.c(SmoothClamp.apply(self.b(x), 2.0))


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--steps", type=int, default=50)
    ap.add_argument("--size", type=int, default=48)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    probe = torch.randn(3, 4, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: SmoothClamp.apply(t, 2.0), (probe,))
    net = Net(args.size)
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    w = torch.randn(10, 3)
    for step in range(args.steps):
        x = torch.randn(64, 10)
        loss = nn.functional.cross_entropy(net(x), (x @ w).argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        with torch.no_grad():
            net.b.weight.clamp_(-1, 1)
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}")
