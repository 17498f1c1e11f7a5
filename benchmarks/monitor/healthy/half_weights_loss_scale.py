"""Loss scaling by hand: weights and gradients in half precision, master copy in float32, steps dropped on overflow."""

import argparse
import copy

import torch
import torch.nn as nn


class DynamicLossScaler:
    def __init__(self, init=2.0**18, window=20):
        self.scale, self.window, self.good = init, window, 0

    def update(self, overflow):
        if overflow:
            self.scale = max(1.0, self.scale / 2)
            self.good = 0
        else:
            self.good += 1
            if self.good % self.window == 0:
                self.scale *= 2


def has_overflow(params):
    return any(p.grad is not None and not torch.isfinite(p.grad).all() for p in params)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=3)
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--size", type=int, default=32)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    master = nn.Sequential(nn.Linear(6, args.size), nn.Tanh(), nn.Linear(args.size, 1))
    half = copy.deepcopy(master).half()
    optimizer = torch.optim.Adam(master.parameters(), lr=1e-2)
    scaler = DynamicLossScaler()
    for step in range(args.steps):
        x = torch.randn(48, 6)
        y = (2 * x[:, 0] - x[:, 1] + x[:, 2].tanh()).unsqueeze(1)
        out = half(x.half())
        loss = nn.functional.mse_loss(out.float(), y)
        for p in half.parameters():
            p.grad = None
        (loss * scaler.scale).backward()
        overflow = has_overflow(half.parameters())
        if not overflow:
            for m, h in zip(master.parameters(), half.parameters()):
                m.grad = h.grad.float() / scaler.scale
            optimizer.step()
            with torch.no_grad():
                for m, h in zip(master.parameters(), half.parameters()):
                    h.copy_(m)
        scaler.update(overflow)
        if step % 10 == 0:
            print(f"{step} loss {loss.item():.4f} scale {scaler.scale:.0f}{' (skipped)' if overflow else ''}")


if __name__ == "__main__":
    main()
