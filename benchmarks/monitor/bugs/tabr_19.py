"""A tabular model: what needs no weight decay is put into the group with decay, and the other group stays empty."""
# source: https://github.com/yandex-research/tabular-dl-tabr/issues/19
# first effect: step 0
# names: param_groups, norm, bias
# family: optimizer
# detectable: yes one of the two groups of the optimizer holds no parameter

import argparse

import torch
from torch import nn


class TabR(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, 32)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 32)) for _ in range(2)
        )
        self.head = nn.Sequential(nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        x = self.linear(x)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x).squeeze(1)


def make_parameter_groups(model, weight_decay, fixed):
    norms = [m for m in model.modules() if isinstance(m, nn.LayerNorm)]
    special = {id(p) for norm in norms for p in norm.parameters()}
    params_with_wd = {"params": []}
    params_without_wd = {"params": [], "weight_decay": 0.0}
    for name, parameter in model.named_parameters():
        needs_wd = not name.endswith("bias") and id(parameter) not in special
        (params_with_wd if needs_wd or not fixed else params_without_wd)["params"].append(parameter)
    params_with_wd["weight_decay"] = weight_decay
    return [params_with_wd, params_without_wd]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    x = torch.randn(512, 8)
    y = x[:, 0] * x[:, 1] + torch.sin(3 * x[:, 2])
    model = TabR(8)
    optimizer = torch.optim.AdamW(make_parameter_groups(model, 0.1, args.fixed), lr=3e-3)
    order = torch.randperm(512)
    for step in range(args.steps):
        if step % 8 == 0 and step:
            order = torch.randperm(512)
        pick = order[(step % 8) * 64 : (step % 8 + 1) * 64]
        loss = nn.functional.mse_loss(model(x[pick]), y[pick])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 8 == 7:
            print(f"epoch {step // 8}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
