"""Half-precision copies of the weights are cached while evaluating under no_grad; the next training step reuses them, and no gradient passes through."""
# source: https://github.com/NVIDIA/apex/pull/132
# first effect: step 5
# names: net.0.weight, net.2.weight, net.4.weight, CastLinear
# family: precision
# detectable: yes weights that had gradients at every step have none at the step after an evaluation

import argparse

import torch
from torch import nn


class CastLinear(nn.Linear):
    """A linear layer that computes in bfloat16 and casts its weight once per update."""

    cached = None

    def forward(self, x):
        if self.cached is None:
            self.cached = self.weight.bfloat16()
        return nn.functional.linear(x.bfloat16(), self.cached).float() + self.bias

    def drop_cache(self):
        self.cached = None


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(CastLinear(10, 48), nn.ReLU(), CastLinear(48, 48), nn.ReLU(), CastLinear(48, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


def drop_caches(model):
    for module in model.modules():
        if isinstance(module, CastLinear):
            module.drop_cache()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--fixed", action="store_true")
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--steps", type=int, default=40)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    model = Model()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    x_val = torch.randn(200, 10)
    for step in range(args.steps):
        x = torch.randn(64, 10)
        loss = nn.functional.mse_loss(model(x), x[:, 0] * x[:, 1])
        opt.zero_grad()
        loss.backward()
        opt.step()
        drop_caches(model)
        if step % 5 == 4:
            model.eval()
            with torch.no_grad():
                val = nn.functional.mse_loss(model(x_val), x_val[:, 0] * x_val[:, 1])
            model.train()
            if args.fixed:
                drop_caches(model)
            print(f"step {step} train {loss.item():.4f} val {val.item():.4f}")


main()
