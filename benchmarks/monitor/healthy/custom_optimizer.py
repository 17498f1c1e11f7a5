"""A custom Optimizer subclass (sign momentum with decoupled decay), with a closure-aware step and saved state."""

import argparse

import torch
from torch import nn
from torch.optim import Optimizer


class SignMomentum(Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), weight_decay=0.0):
        if lr <= 0:
            raise ValueError(f"lr must be positive, not {lr}")
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["momentum"] = torch.zeros_like(p)
                m = state["momentum"]
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(torch.sign(b1 * m + (1 - b1) * p.grad), alpha=-group["lr"])
                m.mul_(b2).add_(p.grad, alpha=1 - b2)
        return loss


def build(size):
    return nn.Sequential(nn.Linear(8, size), nn.Hardswish(), nn.LayerNorm(size), nn.Linear(size, 2))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--size", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = build(args.size)
    optimizer = SignMomentum(model.parameters(), lr=3e-3, weight_decay=0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: 1.0 / (1.0 + 0.02 * t))
    for t in range(args.steps):
        x = torch.randn(64, 8)
        y = ((x[:, 0] + x[:, 1] ** 2) > 0.7).long()

        def closure():
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            return loss

        loss = optimizer.step(closure)
        scheduler.step()
        if t % 12 == 0:
            print(f"t={t} loss={loss.item():.4f} lr={scheduler.get_last_lr()[0]:.5f}")
    again = SignMomentum(model.parameters(), lr=1.0)
    again.load_state_dict(optimizer.state_dict())
    print("state restored, lr", round(again.param_groups[0]["lr"], 6))


if __name__ == "__main__":
    main()
