"""Train, prune the smallest weights by torch.nn.utils.prune, fine-tune under the masks, make the pruning permanent."""

import argparse

import torch
import torch.nn.functional as F
import torch.nn.utils.prune as prune
from torch import nn


def sparsity(model):
    weights = [m.weight for m in model.modules() if isinstance(m, nn.Linear)]
    return float(sum((w == 0).sum() for w in weights)) / sum(w.numel() for w in weights)


def train(model, steps, teacher, lr, tag):
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    for i in range(steps):
        x = torch.randn(48, 16)
        loss = F.cross_entropy(model(x), teacher(x))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 10 == 0:
            print(f"{tag} {i} loss {loss.item():.4f} sparsity {sparsity(model):.2f}")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--steps", type=int, default=60, help="over the three phases")
    p.add_argument("--size", type=int, default=48)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    w = torch.randn(16, 4)
    model = nn.Sequential(
        nn.Linear(16, args.size), nn.ReLU(), nn.Linear(args.size, args.size), nn.ReLU(), nn.Linear(args.size, 4)
    )
    targets = [(m, "weight") for m in model if isinstance(m, nn.Linear)]
    each = max(1, args.steps // 3)

    def teacher(x):
        return (x @ w).argmax(1)

    train(model, each, teacher, 5e-3, "dense")
    for amount in (0.4, 0.5):
        prune.global_unstructured(targets, pruning_method=prune.L1Unstructured, amount=amount)
        train(model, each, teacher, 2e-3, f"pruned {amount}")
    for module, name in targets:
        prune.remove(module, name)
    print(f"final sparsity {sparsity(model):.3f}")


if __name__ == "__main__":
    main()
