"""The router of a mixture is frozen, but the bias that balances its experts is still moved after every step."""
# source: https://github.com/modelscope/mcore-bridge/pull/195
# first effect: step 1
# names: expert_bias, router
# family: other
# detectable: yes a buffer of a part in which nothing is trained changes with every step

import argparse

import torch
from torch import nn
from torch.nn import functional as F


class Router(nn.Module):
    def __init__(self, dim, experts):
        super().__init__()
        self.gate = nn.Linear(dim, experts, bias=False)
        self.register_buffer("expert_bias", torch.zeros(experts))
        self.register_buffer("counts", torch.zeros(experts), persistent=False)

    def forward(self, x, counting):
        scores = self.gate(x).sigmoid()
        chosen = (scores + self.expert_bias).topk(2, dim=-1).indices
        if self.training and counting:
            self.counts += torch.bincount(chosen.flatten(), minlength=len(self.counts))
        weights = torch.zeros_like(scores).scatter(-1, chosen, scores.gather(-1, chosen))
        return weights / weights.sum(-1, keepdim=True)


class Mixture(nn.Module):
    def __init__(self, frozen, dim=16, experts=6):
        super().__init__()
        self.frozen = frozen
        self.router = Router(dim, experts)
        self.experts = nn.ModuleList(nn.Linear(dim, dim) for _ in range(experts))
        self.adapter = nn.Linear(dim, dim)
        self.head = nn.Linear(dim, 4)

    def forward(self, x):
        weights = self.router(x, counting=not self.frozen)
        mixed = sum(weights[:, i : i + 1] * expert(x) for i, expert in enumerate(self.experts))
        return self.head(torch.relu(mixed + self.adapter(x)))


def balance(router):
    with torch.no_grad():
        router.expert_bias += 0.01 * torch.sign(router.counts.mean() - router.counts)
        router.counts.zero_()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Mixture(frozen=args.fixed)
    model.router.requires_grad_(False)
    model.experts.requires_grad_(False)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=3e-3)
    rule = torch.randn(16, 4)
    for step in range(args.steps):
        x = torch.randn(32, 16)
        loss = F.cross_entropy(model(x), (x @ rule).argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if not args.fixed:
            balance(model.router)
        if step % 6 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
