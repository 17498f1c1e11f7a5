"""Experts are placed by an attribute `id`, which the registration of hooks uses for a number of its own."""
# source: https://github.com/deepspeedai/DeepSpeed/issues/6772
# first effect: step 0
# names: experts.1, experts.2, experts.3
# family: other
# detectable: yes three of four experts that should train are never called and never change

import argparse

import torch
from torch import nn


class Expert(nn.Module):
    def __init__(self, number, width):
        super().__init__()
        self.id = number
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


class MixtureOfExperts(nn.Module):
    def __init__(self, width, count):
        super().__init__()
        self.gate = nn.Linear(width, count)
        self.experts = nn.ModuleList(Expert(number, width) for number in range(count))

    def forward(self, x):
        weight, chosen = self.gate(x).softmax(dim=-1).max(dim=-1)
        place = {expert.id: expert for expert in self.experts}
        y = torch.zeros_like(x)
        for number in range(len(self.experts)):
            mine = chosen == number
            expert = place.get(number, self.experts[0])
            y[mine] = expert(x[mine]) * weight[mine, None]
        return x + y


def register_hooks(module, fixed, count=0):
    """Number all modules, children first, for the order in which their parameters are fetched."""
    for child in module.children():
        count = register_hooks(child, fixed, count)
    if fixed:
        module._fetch_id = count
    else:
        module.id = count
    return count + 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=25)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(6, 16), MixtureOfExperts(16, 4), nn.Linear(16, 1))
    register_hooks(model, args.fixed)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    before = [expert.up.weight.detach().clone() for expert in model[1].experts]
    for step in range(args.steps):
        x = torch.randn(64, 6)
        loss = nn.functional.mse_loss(model(x).squeeze(1), x.prod(dim=1) + x[:, 0].abs())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print("step", step, "loss", round(loss.item(), 4))
    moved = [round((e.up.weight - b).norm().item(), 4) for e, b in zip(model[1].experts, before, strict=True)]
    print(f"loss {loss.item():.4f}, experts moved by {moved}")


if __name__ == "__main__":
    main()
