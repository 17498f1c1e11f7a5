"""What was frozen when the optimizer was made is claimed by none of its groups, and thawing it later puts it into none."""
# source: https://github.com/luxonis/luxonis-train/pull/432
# first effect: step 8
# names: backbone
# family: optimizer
# detectable: yes parameters that get gradients from the thaw on are held by no optimizer and never change

import argparse

import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.head = nn.Linear(32, 5)

    def forward(self, x):
        return self.head(self.backbone(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Model()
    model.backbone.requires_grad_(False)
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=5e-3)
    rule = torch.randn(12, 5)
    for step in range(args.steps):
        if step == 8:
            model.backbone.requires_grad_(True)
            held = {id(one) for group in optimizer.param_groups for one in group["params"]}
            missing = [one for one in model.backbone.parameters() if id(one) not in held]
            if args.fixed:
                optimizer.add_param_group({"params": missing, "lr": 1e-3})
        x = torch.randn(32, 12)
        loss = F.cross_entropy(model(x), (x @ rule).argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 6 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
