"""A configuration without alpha gives adapters a scale of zero: they are there, and do nothing."""
# source: https://github.com/invergent-ai/surogate/issues/173
# first effect: step 0
# names: low, up
# family: init
# detectable: yes gradients of all adapters are exactly zero at every step

import argparse

import torch
from torch import nn
from torch.nn import functional as F


class Adapted(nn.Module):
    def __init__(self, wide_in, wide_out, config):
        super().__init__()
        rank = config["r"]
        self.base = nn.Linear(wide_in, wide_out).requires_grad_(False)
        self.low = nn.Linear(wide_in, rank, bias=False)
        self.up = nn.Linear(rank, wide_out, bias=False)
        nn.init.zeros_(self.up.weight)
        self.scale = config.get("lora_alpha", 0) / rank

    def forward(self, x):
        return self.base(x) + self.scale * self.up(self.low(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    config = {"r": 4, **({"lora_alpha": 8} if args.fixed else {})}
    model = nn.Sequential(Adapted(10, 32, config), nn.GELU(), Adapted(32, 32, config), nn.GELU(), nn.Linear(32, 4))
    trained = [one for one in model.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=5e-3, weight_decay=0.0)
    rule = torch.randn(10, 4)
    for step in range(args.steps):
        x = torch.randn(32, 10)
        loss = F.cross_entropy(model(x), (x @ rule).argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 6 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
